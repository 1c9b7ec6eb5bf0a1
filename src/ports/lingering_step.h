// A step that outlives its tasks: what they leave behind runs on until the job ends, and their client may go as it
// likes. An SSH connection into a job is one, as what pam_slurm_adopt puts into a job's extern step. A variable of the
// step's environment, "1", which its processes do not get.
#pragma once

namespace lockstep {

inline constexpr const char* kLingerVariable = "LOCKSTEP_STEP_LINGERS";

}  // namespace lockstep
