// --tmpfs: how a job that wants its /tmp in memory says so to its nodes. The variable travels with the job's
// environment; what starts tasks takes it out again.
#pragma once

namespace lockstep {

inline constexpr const char* kTmpfsVariable = "LOCKSTEP_TMPFS";  // decimal, in megabytes

}  // namespace lockstep
