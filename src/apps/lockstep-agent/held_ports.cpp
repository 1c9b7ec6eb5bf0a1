#include "held_ports.h"

#include <unistd.h>

#include "shim/held_port.h"

namespace lockstep {

HeldPorts::~HeldPorts() {
  for (const auto& [port, fd] : held_) ::close(fd);
}

std::set<HeldPorts::NodePort> HeldPorts::hold(const std::map<NodePort, std::size_t>& wanted) {
  std::erase_if(held_, [&](const auto& one) {
    const bool is_over = !wanted.contains(one.first);
    if (is_over)
      ::close(one.second);
    return is_over;
  });
  std::set<NodePort> taken;
  for (const auto& [port, services] : wanted) {
    if (held_.contains(port))
      continue;
    const auto held = hold_port(port.first, "", port.second);
    if (held.ok())
      held_[port] = *held;
    else if (held.error().code == Errc::kConflict)
      taken.insert(port);
  }
  return taken;
}

}  // namespace lockstep
