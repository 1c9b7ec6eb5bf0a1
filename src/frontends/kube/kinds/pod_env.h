// Variables of a container: references to each other are put in as Kubernetes does.
// Source: kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

using Variables = std::map<std::string, std::string, std::less<>>;

// Of one value, and of all of a container: Linux starts no program with longer ones (execve(2): MAX_ARG_STRLEN, and a
// quarter of the usual stack).
inline constexpr std::size_t kVariableBytesMax = 128 << 10, kVariablesOfPodMax = 1 << 20;

// "$(NAME)" becomes the variable's value where there is one, "$$(NAME)" the text "$(NAME)". Nothing: it is longer than
// kVariableBytesMax, as a few that name each other twice soon are.
std::optional<std::string> expanded(std::string_view text, const Variables& known);

// A field that a variable or a file of the downward API names ("metadata.labels['a']", "spec.nodeName"), as far as the
// pod's own tree says it. Nothing: the tree does not.
std::optional<std::string> field_of_pod(const json::object& pod, std::string_view path);
// An amount that resourceFieldRef names, of the container, in units of the divisor. Where the container has no limit
// it is what the node has, in whole units: cores and bytes.
struct NodeAmounts {
  std::int64_t cores = 1, memory_bytes = 0, disk_bytes = 0;
};
std::optional<std::string> resource_of_container(const json::value& container, const json::value& reference,
                                                 const NodeAmounts& node);

// Variables whose values the tree says, in order, as far as the bounds go; of a name that comes again the last value.
std::vector<std::pair<std::string, std::string>> plain_variables(const json::object& pod, const json::value& container);

}  // namespace lockstep::kube
