// The way to one container of a task: a stream to the agent of the node that it runs on, or ran on last, with a ticket
// that nobody else is given.
#pragma once

#include <memory>

#include "controller/links.h"
#include "controller/tickets.h"
#include "model/container_ask.h"
#include "model/tables.h"
#include "ports/loop.h"

namespace lockstep {

Result<std::unique_ptr<Stream>> reach_container(const Tables& tables, LinkHub& links, const TicketOffice& tickets,
                                                const ContainerAsk& ask, Instant now);

}  // namespace lockstep
