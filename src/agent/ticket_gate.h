// TicketGate: whether somebody who wants to attach to a step here may. Knows this node's key, and cluster time as the
// controller told it, carried on by the boot clock, so a node's own wall clock does not matter.
#pragma once

#include <memory>
#include <optional>

#include "base/time.h"
#include "ports/loop.h"
#include "wire/step_route.h"

namespace lockstep {

class TicketGate {
 public:
  TicketGate(std::string node_name, Mac mac);

  // From a Welcome.
  void set_key(std::string key, Instant cluster_now, Instant boot_now);
  // owner: of the step's attempt, when it is known here. kDenied says why: not signed by the controller for this node,
  // expired, of another user, or of no use.
  Result<void> check(const StepTicket& ticket, std::optional<std::uint32_t> owner, Instant boot_now) const;

 private:
  std::string node_name_;
  Mac mac_;
  std::string key_;
  Instant cluster_then_, boot_then_;
};

// The client's end of a stream to a shim, as a ticket with these verbs allows it: a frame that asks for more closes the
// stream. Everything allowed: the stream itself.
std::unique_ptr<Stream> guarded(std::unique_ptr<Stream> client, std::uint8_t verbs);

}  // namespace lockstep
