// The system calls that a task in a container may not make, as the default profiles of container runtimes have it:
// those that make namespaces, mount, load code into the kernel, or look into it. Passed on to all that the task starts.
#pragma once

#include "base/result.h"

namespace lockstep {

// as_root: the task believes to be root. What then only changes owners, or the identity, to what the container does not
// have seems to succeed, so that package managers work.
Result<void> forbid_system_calls(bool as_root);

}  // namespace lockstep
