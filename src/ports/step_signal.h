// A signal to all of a job reaches its steps by themselves, and the srun that accompanies a step, which hands signals
// on, as one of the script's processes. This value of sigqueue(3) says to it that the step has it already.
#pragma once

namespace lockstep {

inline constexpr int kSentToStepsToo = 0x4c6b;

}  // namespace lockstep
