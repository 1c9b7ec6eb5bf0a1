// How many replicas a workload is to have, seen as autoscaling/v1 Scale: what kubectl scale and autoscalers read and write.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>

namespace lockstep::kube {

namespace json = boost::json;

// Where the numbers stand in the object: ".spec.replicas", ".status.replicas", ".status.selector" or a LabelSelector.
struct ScalePaths {
  std::string wanted = ".spec.replicas", has = ".status.replicas", selector = ".spec.selector";
};
ScalePaths scale_paths(const json::object& of_definition);  // subresources.scale of a custom resource's version

json::object scale_of(const json::object& tree, const ScalePaths& paths);
// The object with as many replicas as the Scale says.
void put_scale(json::object& tree, const json::object& scale, const ScalePaths& paths);

}  // namespace lockstep::kube
