// What a changed Node object changes of the node's record: labels, taints, what is counted there, and whether it takes
// new work (kubectl cordon, drain), which is the same act as `scontrol update state=drain`.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "model/command.h"

namespace lockstep::kube {

namespace json = boost::json;

// old: the object as it was shown before; null: whether the node takes work stays as it is. who: wrote it.
// Nullopt: the record says all that already.
std::optional<UpdateNode> node_change(const Node& node, const json::object* old, const json::object& tree,
                                      std::string_view who);

}  // namespace lockstep::kube
