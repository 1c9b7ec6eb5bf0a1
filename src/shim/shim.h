// A shim: owns the processes of one step on one node and their input and output, and outlives agent and controller.
//
//   reads its launch ─▶ starts the tasks ─▶ relays until every task has ended ─▶ kills what they left behind
//     ─▶ writes the result, tells the agent ─▶ serves clients that still lack output ─▶ exits
#pragma once

namespace lockstep {

struct ShimDescriptors {
  int record = 3;
  int control = 4;
};

// What a process does once before it is a shim, or makes shims: leaves what it had of the agent's standing.
void settle_shim();

// Runs in the shim's folder (its working directory), after settle_shim; returns the exit code.
int run_shim(ShimDescriptors descriptors);

}  // namespace lockstep
