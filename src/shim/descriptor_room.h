// Descriptor room: whether one process may hold the pipes of all tasks of a step on this node. A step that could not is
// refused before any of it is made, so that whoever attaches hears why.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "model/agent_messages.h"

namespace lockstep {

// `limit`: descriptors that the process may have (RLIMIT_NOFILE).
Result<void> check_descriptor_room(const TaskProcesses& step, const std::string& host, std::size_t limit);

}  // namespace lockstep
