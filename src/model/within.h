// Whether a value keeps to its bounds: the lists of fields (model/*_fields.h), asked by the core when a command is
// applied. The decoders ask the same lists while they read.
#pragma once

#include "base/result.h"

namespace lockstep {

// kInvalid, with the path of the first field that holds too much, and how much is allowed. For the types listed at the
// end of within.cpp.
template <class T>
Result<void> within_bounds(const T& value);

}  // namespace lockstep
