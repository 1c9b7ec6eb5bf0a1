// The job that runs a pod: one task, whose sandbox has the pod's containers.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "model/spec.h"

namespace lockstep::kube {

namespace json = boost::json;

// What is settled beside the pod itself.
struct PodSite {
  UserId user;  // whose the job is
  std::string account, qos;
  std::int32_t nice = 0;                             // below 0: before others
  std::map<std::string, std::string> claims;         // where claims lie on the node, by the volume's name
  std::map<std::string, std::uint64_t> claim_bytes;  // how much may lie there, by the same; none: nobody counts
  std::vector<json::value> volume_nodes;             // nodeAffinity.required of each volume that has one
  std::vector<std::string> name_servers;             // of the cluster's names; empty: as on the node
  NamespacesOf namespaces = [](const json::value&) { return std::vector<std::string>(); };
};

// The pod's tree has its defaults and has passed validation. Errors: what no job can be (a field is named).
Result<JobSpec> job_of_pod(const json::object& pod, const PodSite& site);

// What its job is granted of cores, whole ones and thousandths of those that others have too, and of memory.
struct PodSize {
  std::uint32_t cores = 0, shared_milli = 0;
  std::int64_t memory_mb = 0;
  friend bool operator==(const PodSize&, const PodSize&) = default;
};
PodSize size_of_pod(const json::object& pod);
PodSize size_of(const Resources& granted);

inline constexpr const char* kClusterDomain = "cluster.local";

}  // namespace lockstep::kube
