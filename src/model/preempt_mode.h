// What happens to a job that has to go for another one.
#pragma once

namespace lockstep {

// kCluster: as Policy::preempt_mode says. kGang: Slurm's time slicing, taken for kOff. kCheckpoint: told by
// JobSpec::checkpoint_signal, given its grace, then requeued.
enum class PreemptMode : unsigned char { kCluster, kOff, kCancel, kRequeue, kSuspend, kGang, kCheckpoint };

}  // namespace lockstep
