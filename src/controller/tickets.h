// TicketOffice: signs who may attach to a step on which node. Every node has a key of its own, so what one node knows
// opens nothing on another. Keys are made anew with each start of the controller, when agents get theirs with the
// Welcome on their new connection, and whenever a node's certificate stops to count, so that whoever held it can use
// nothing it saw. A client whose ticket has become void attaches again.
#pragma once

#include "base/time.h"
#include "model/records.h"
#include "wire/step_route.h"

namespace lockstep {

class TicketOffice {
 public:
  TicketOffice(std::string secret, Mac mac) : secret_(std::move(secret)), mac_(std::move(mac)) {}

  void renew(std::string secret) { secret_ = std::move(secret); }
  std::string node_key(std::string_view node_name) const;
  // uid: of the step's owner. Good for kTicketLife; a stream that is open stays open.
  StepTicket issue(const Step& step, std::uint32_t uid, const std::string& node_name, std::uint8_t verbs,
                   Instant now) const;
  // The same of a ticket whose first fields name what it is about. Sets node, verbs, expiry and signature.
  StepTicket issue(StepTicket about, const std::string& node_name, std::uint8_t verbs, Instant now) const;

 private:
  std::string secret_;
  Mac mac_;
};

inline constexpr Duration kTicketLife = minutes(5);

}  // namespace lockstep
