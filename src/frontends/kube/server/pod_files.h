// What the API gives the node of a pod for its sandbox: files of its volumes, variables of its containers, and what is
// still missing. The answer of GET /v1/front-end-files.
// Source: kubernetes.io/docs/concepts/storage/projected-volumes, …/configuration/configmap, …/configuration/secret.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>

#include "frontends/kube/server/service_variables.h"
#include "model/tables.h"

namespace lockstep::kube {

namespace json = boost::json;

struct PodFilesTools {
  std::function<std::string(std::string_view claims)> sign;
  std::function<std::string(std::string_view)> sha256_hex;
  std::string address;  // of the API, as pods reach it: "https://10.77.0.1:6820"
  const ServiceVariables& services;
};

// {"volumes":[…],"variables":[…],"waits":[…]}: a function of the tables and the hour: tokens are renewed when four
// fifths of their life are over. pod: its object, whose job has a node.
json::object files_of_pod(const Tables& tables, const Object& pod, const PodFilesTools& tools, Instant now);

}  // namespace lockstep::kube
