// What this node has to hold jobs apart: control groups, where this machine lets us have them.
#pragma once

#include "io/shims.h"
#include "wire/local_files.h"

namespace lockstep {

// Without groups where there are none for us, which is said in the log with the reason.
Isolation make_isolation(const AgentFile& settings, const std::string& node);

}  // namespace lockstep
