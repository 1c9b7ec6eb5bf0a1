// The columns that `kubectl get` prints of built-in kinds, and what stands in them.
#pragma once

#include <boost/json/array.hpp>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "frontends/kube/machinery/table.h"

namespace lockstep::kube {

// type: as objects are stored ("deployments.apps"). Of kinds without a list of their own: the name and the age.
const std::vector<Column>& columns_of(std::string_view type);
json::array cells_of(std::string_view type, const json::object& tree, WallTime now);

}  // namespace lockstep::kube
