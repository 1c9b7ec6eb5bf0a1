#include "controller/tickets.h"

namespace lockstep {

std::string TicketOffice::node_key(std::string_view node_name) const {
  return mac_(secret_, std::string("lockstep-node-key/1\n").append(node_name));
}

StepTicket TicketOffice::issue(const Step& step, std::uint32_t uid, const std::string& node_name, std::uint8_t verbs,
                               Instant now) const {
  StepTicket ticket;
  ticket.job = step.job;
  ticket.attempt = step.attempt;
  ticket.step = step.number;
  ticket.uid = uid;
  return issue(std::move(ticket), node_name, verbs, now);
}

StepTicket TicketOffice::issue(StepTicket ticket, const std::string& node_name, std::uint8_t verbs, Instant now) const {
  ticket.node = node_name;
  ticket.verbs = verbs;
  ticket.expires_us = (now + kTicketLife).us;
  ticket.mac = mac_(node_key(node_name), signed_text(ticket));
  return ticket;
}

}  // namespace lockstep
