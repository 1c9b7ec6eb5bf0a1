// Kinds that are served in several shapes: how an object looks in the version that a client speaks, and as it is
// stored.
//   events        stored as core/v1, served as events.k8s.io/v1, too
//   autoscalers   stored as autoscaling/v2, served as v1, too
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace lockstep::kube {

namespace json = boost::json;

bool is_converted(std::string_view type, std::string_view api_version);
void to_stored(std::string_view type, std::string_view api_version, json::object& tree);
void from_stored(std::string_view type, std::string_view api_version, json::object& tree);

// The path in the stored shape of a field that a selector names.
std::string stored_path(std::string_view type, std::string_view api_version, std::string_view path);

}  // namespace lockstep::kube
