// What is taken and yet deserves a word to who sends it: fields that are ignored, names that hide others, labels that
// went out of use. At most a few dozen, each of bounded length.
// Source: the words are those of k8s.io/kubernetes pkg/api/{pod,service,job}/warnings.go.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::kube {

namespace json = boost::json;

// type: as objects are stored. old: null of a new object.
std::vector<std::string> warnings_of(std::string_view type, const json::object& tree, const json::object* old);

}  // namespace lockstep::kube
