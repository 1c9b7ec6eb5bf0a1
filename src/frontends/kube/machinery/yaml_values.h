// YAML bodies as Kubernetes' server reads them: YAML 1.1 as Go's yaml.v2 takes it, then JSON.
//
// What looks like something is that: 0644 and 0o644 are 420, 1_000 is 1000, yes and off are booleans, "<<" merges. The
// first document counts; of a field that is there twice the last one does, and `doubled` tells of it.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/kube/machinery/json_extent.h"

namespace lockstep::kube {

namespace json = boost::json;

struct YamlValues {
  json::value value;
  std::vector<std::string> doubled;  // `line 3: key "a" already set in map`
};

// With what aliases make of the text.
struct YamlMost {
  std::size_t values = kValuesMax, bytes = 16 << 20;
};

// Whether a few lines may stand for many values: it seems to have aliases, which no count of its text tells.
bool may_outgrow_its_text(std::string_view yaml);

// The Error's message begins with the line where there is one.
Result<YamlValues> values_of_yaml(std::string_view text, const YamlMost& most = {});

}  // namespace lockstep::kube
