// Expressions in objects: what is wrong with one is said when it is stored, not when it is first needed.
#pragma once

#include "frontends/kube/cel/program.h"
#include "frontends/kube/kinds/place.h"

namespace lockstep::kube {

// The type that it has; null: it is none, which has been said. results: what it may evaluate to, in the names of
// cel::Type, one of which "dyn" may be; empty: anything.
cel::TypeRef check_expression(const Place& place, const std::vector<cel::Variable>& names,
                              const std::vector<std::string>& results);

}  // namespace lockstep::kube
