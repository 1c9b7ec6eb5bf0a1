// HealthPorts: ports of this node at which a balancer learns over HTTP whether something of a service is there: 200, or
// 503 where nothing is. Source: kubernetes.io/docs/concepts/services-networking/service ("healthCheckNodePort").
#pragma once

#include <map>
#include <memory>

#include "io/fd_stream.h"
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
  struct Client {
    std::unique_ptr<FdStream> stream;
    TimerId patience = 0;
    bool is_answered = false;
  };
  void meet(std::uint16_t port, int fd);
  void answer(std::uint64_t id, std::uint16_t port);
  void end_soon(std::uint64_t id);

  EventLoop& loop_;
  std::map<std::uint16_t, PacketRules::HealthPort> wanted_;
  std::map<std::uint16_t, int> open_;
  std::map<std::uint64_t, Client> clients_;
  std::uint64_t next_ = 1;
};

}  // namespace lockstep
