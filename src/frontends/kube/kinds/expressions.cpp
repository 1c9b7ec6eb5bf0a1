#include "frontends/kube/kinds/expressions.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep::kube {

cel::TypeRef check_expression(const Place& place, const std::vector<cel::Variable>& names,
                              const std::vector<std::string>& results) {
  const auto program = cel::compile(place.text(), names);
  if (!program.ok()) {
    place.invalid("compilation failed: " + program.error().message);
    return nullptr;
  }
  const cel::TypeRef type = program->result();
  if (!results.empty() && std::ranges::find(results, type->name) == results.end()) {
    const std::string is = cel::type_text(type);
    if (results.size() == 1)
      place.invalid(format("must evaluate to {} but got {}", results[0], is));
    else if (results.back() == "dyn")
      place.invalid(format("must evaluate to {} or the unknown type, not {}", results[0], is));
    else
      place.invalid(format("must evaluate to one of [{}] but got {}", join(results, " "), is));
    return nullptr;
  }
  return type;
}

}  // namespace lockstep::kube
