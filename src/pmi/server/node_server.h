// The process lockstep-pmi: serves the ranks of one step on one node, between them and the step's shim. It is started
// by the shim as the step's user, with the descriptors of pmi/control.h, and ends when the shim says so or is gone.
#pragma once

namespace lockstep {

// The exit code of the process.
int serve_pmi();

}  // namespace lockstep
