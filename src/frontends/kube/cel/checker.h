// Gives every part of an expression a type, and finds names, fields and calls that cannot be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/cel/program.h"

namespace lockstep::kube::cel {

struct Checked {
  TypeRef type;
  std::vector<std::string> faults;  // `ERROR: <input>:1:6: undefined field 'x' …`
};
Checked check_types(std::string_view text, const Node& root, const std::vector<Variable>& variables);

}  // namespace lockstep::kube::cel
