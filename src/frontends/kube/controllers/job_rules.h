// How a Job judges its pods: which indexes are done, which failures count, when the whole has succeeded or failed.
// Source: kubernetes.io/docs/concepts/workloads/controllers/job.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/interval_set.h"
#include "frontends/kube/controllers/pod_reading.h"

namespace lockstep::kube {

inline constexpr const char* kJobFinalizer = "batch.kubernetes.io/job-tracking";
inline constexpr const char* kIndexKey = "batch.kubernetes.io/job-completion-index";
inline constexpr const char* kIndexFailures = "batch.kubernetes.io/job-index-failure-count";
inline constexpr const char* kIndexIgnored = "batch.kubernetes.io/job-index-ignored-failure-count";

// "0-3,5": as statuses hold them; what lies at or behind `completions` is left out.
IntervalSet read_indexes(std::string_view text, std::int64_t completions);
std::string indexes_text(const IntervalSet& indexes);  // two neighbours stand as "1,2"

struct JobSpecReading {
  std::optional<std::int64_t> completions;
  std::int64_t parallelism = 1, backoff_limit = 6;
  std::optional<std::int64_t> backoff_limit_per_index, failed_indexes_max, deadline_seconds;
  bool indexed = false, suspended = false, restarts_on_failure = false;
  bool replaces_failed_only = false;  // a pod that is being deleted is not replaced before it has ended
  const json::object* failure_policy = nullptr;
  const json::object* success_policy = nullptr;
};
JobSpecReading read_job_spec(const json::value& spec);  // points into it

// The index of the pod's work, below `completions`. Nothing: it has none that counts.
std::optional<std::uint32_t> index_of(const PodReading& pod, std::int64_t completions);

// Ended badly; one that is being deleted counts too, unless only failed ones are replaced.
bool has_failed(const PodReading& pod, const JobSpecReading& spec);

// What the failure policy's first matching rule says of a failed pod.
struct FailureVerdict {
  bool counts = true;  // towards the limits
  bool fails_index = false;
  std::optional<std::string> fails_job;  // with this message
};
FailureVerdict judge_failure(const PodReading& pod, const JobSpecReading& spec);

// "Matched rules at index 0": the success policy is met. Nothing: it is not.
std::optional<std::string> met_success_policy(const JobSpecReading& spec, const IntervalSet& succeeded);

// When the pod ended, as near as its status says.
WallTime end_of(const PodReading& pod);

std::int64_t index_failures(const PodReading& pod, std::string_view annotation);

// How long no new pod is made after that many failures in a row: 10 s, doubled with each, 10 min at most.
Duration pause_after(std::int64_t failures);

}  // namespace lockstep::kube
