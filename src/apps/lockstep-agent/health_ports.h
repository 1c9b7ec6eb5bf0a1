// HealthPorts: ports of this node at which a balancer learns over HTTP whether something of a service is there: 200, or
// 503 where nothing is. Source: kubernetes.io/docs/concepts/services-networking/service ("healthCheckNodePort").
#pragma once

#include <map>
#include <memory>

#include "ports/loop.h"
#include "services/packet_rules.h"

namespace lockstep {

class HealthPorts {
 public:
  explicit HealthPorts(EventLoop& loop) : loop_(loop) {}
  ~HealthPorts();
  HealthPorts(HealthPorts&&) = delete;
  // A port that somebody else has is tried again the next time.
  void keep(const std::map<std::uint16_t, PacketRules::HealthPort>& wanted);

 private:
  void answer(std::uint16_t port, int fd);

  EventLoop& loop_;
  std::map<std::uint16_t, PacketRules::HealthPort> wanted_;
  std::map<std::uint16_t, int> open_;
};

}  // namespace lockstep
