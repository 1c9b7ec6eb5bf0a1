// What a process has of its parent besides memory and descriptors: limits, priorities, CPUs, where its memory lies. A
// daemon that outlives the shell it was started from must not live by that shell's `ulimit`, `nice` or `taskset`.
#pragma once

namespace lockstep {

// In a forked child before exec: system calls only, no memory. What only root may raise stays as near as it can.
void take_own_standing();

}  // namespace lockstep
