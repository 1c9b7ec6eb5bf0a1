// JSON written as YAML, keys in order, as Kubernetes' server writes it for who accepts application/yaml.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

namespace lockstep::kube {

namespace json = boost::json;

// most: so many bytes may stand before what lines say. Where they are used up, a part stands on one line, as JSON,
// which is YAML too: deep lists of nothing would grow without end.
std::string yaml_text(const json::value& value, std::size_t most = SIZE_MAX);
// The same as an entry of a list that stands at the outermost level's depth: behind a dash.
std::string yaml_item(const json::value& value, std::size_t most = SIZE_MAX);
// For `most`, of a value that is so long as JSON.
constexpr std::size_t yaml_most(std::size_t json_bytes) { return 6 * json_bytes + 1024; }

}  // namespace lockstep::kube
