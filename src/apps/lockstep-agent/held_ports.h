// HeldPorts: ports of the node that services have, held so that nobody else listens there and is taken for them. A port
// at which somebody listens already stays theirs.
#pragma once

#include <map>
#include <set>

#include "services/packet_rules.h"

namespace lockstep {

class HeldPorts {
 public:
  using NodePort = PacketRules::NodePort;
  HeldPorts() = default;
  ~HeldPorts();
  HeldPorts(const HeldPorts&) = delete;
  HeldPorts& operator=(const HeldPorts&) = delete;

  // Lets go of what nobody wants any more. The answer: those that are somebody else's.
  std::set<NodePort> hold(const std::map<NodePort, std::size_t>& wanted);

 private:
  std::map<NodePort, int> held_;  // descriptors
};

}  // namespace lockstep
