// For tests of this folder: cases that were asked of the published Go libraries (testdata/README.md).
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "base/scenario.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

inline json::value parsed(std::string_view text) {
  json::parse_options options;
  options.max_depth = kDepthMax;
  return json::parse(text, {}, options);
}

inline json::value load_cases(const std::string& name) {
  return parsed(scenario_text(scenario_folder(LOCKSTEP_TESTDATA) + "/" + name));
}

inline json::array load_list(const std::string& name) { return load_cases(name).as_array(); }

inline std::string case_text(const json::value& each, std::string_view key) {
  const json::value* found = member(each, key);
  return found == nullptr ? std::string() : std::string(text_of(*found));
}

}  // namespace lockstep::kube
