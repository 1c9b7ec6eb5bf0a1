#include "frontends/kube/machinery/schema.h"

#include <algorithm>

namespace lockstep::kube {

const Field* Schema::field(std::string_view wanted) const {
  const auto at = std::ranges::lower_bound(fields, wanted, {}, &Field::name);
  return at != fields.end() && at->name == wanted ? &*at : nullptr;
}

}  // namespace lockstep::kube
