// JSON written as YAML, keys in order, as Kubernetes' server writes it for who accepts application/yaml.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace lockstep::kube {

namespace json = boost::json;

std::string yaml_text(const json::value& value);

}  // namespace lockstep::kube
