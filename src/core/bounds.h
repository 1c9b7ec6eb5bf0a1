// What a command may hold, whoever made it: the core asks before anything is changed.
#pragma once

#include "base/result.h"
#include "model/command.h"
#include "model/tables.h"

namespace lockstep {

// kInvalid with the path of the field that holds too much; kExhausted when as many records of its kind are listed as
// may be (model/kinds.def).
Result<void> check_bounds(const Tables& tables, const CommandBody& body);

}  // namespace lockstep
