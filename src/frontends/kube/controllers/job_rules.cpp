#include "frontends/kube/controllers/job_rules.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr Duration kPauseAtFirst = seconds(10), kPauseAtMost = minutes(10);

std::optional<std::int64_t> whole_or_none(const json::value& spec, std::string_view key) {
  const json::value* number = member(spec, key);
  return number && is_number(*number) ? std::optional(static_cast<std::int64_t>(number_of(*number))) : std::nullopt;
}

// The first container that ended with one of the codes; null: none did.
const PodReading::Container* matching_end(const PodReading& pod, const json::object& wanted) {
  const json::array* codes = member_array(wanted, "values");
  const std::string name = text_in(wanted, "containerName");
  const bool in = text_in(wanted, "operator") == "In";
  for (const bool init : {false, true})
    for (const PodReading::Container& one : pod.containers) {
      if (one.init != init || one.exit_code.value_or(0) == 0 || (!name.empty() && name != one.name))
        continue;
      const bool listed = codes && std::ranges::any_of(*codes, [&](const json::value& code) {
                            return number_of(code) == static_cast<double>(*one.exit_code);
                          });
      if (listed == in)
        return &one;
    }
  return nullptr;
}

const PodReading::Condition* matching_condition(const PodReading& pod, const json::array& wanted) {
  for (const PodReading::Condition& one : pod.conditions)
    for (const json::value& pattern : wanted)
      if (text_in(pattern, "type") == one.type && text_in(pattern, "status") == one.status)
        return &one;
  return nullptr;
}

}  // namespace

IntervalSet read_indexes(std::string_view text, std::int64_t completions) {
  const auto read = text.empty() ? Result<IntervalSet>(IntervalSet()) : IntervalSet::parse(text);
  IntervalSet out = read.ok() ? *read : IntervalSet();
  if (completions <= UINT32_MAX)
    out.erase(static_cast<std::uint32_t>(std::max<std::int64_t>(0, completions)), UINT32_MAX);
  return out;
}

std::string indexes_text(const IntervalSet& indexes) {
  std::string out;
  for (const Interval& part : indexes.intervals()) {
    out += format("{}{}", out.empty() ? "" : ",", part.low);
    if (part.high > part.low)
      out += format("{}{}", part.high == part.low + 1 ? "," : "-", part.high);
  }
  return out;
}

JobSpecReading read_job_spec(const json::value& spec) {
  JobSpecReading out;
  out.completions = whole_or_none(spec, "completions");
  out.parallelism = std::max<std::int64_t>(0, whole_in(spec, "parallelism", 1));
  out.backoff_limit_per_index = whole_or_none(spec, "backoffLimitPerIndex");
  out.backoff_limit = whole_in(spec, "backoffLimit", out.backoff_limit_per_index ? INT32_MAX : 6);
  out.failed_indexes_max = whole_or_none(spec, "maxFailedIndexes");
  out.deadline_seconds = whole_or_none(spec, "activeDeadlineSeconds");
  out.indexed = text_in(spec, "completionMode") == "Indexed" && out.completions;
  out.suspended = truth_in(spec, "suspend");
  out.restarts_on_failure = text_in(part(part(spec, "template"), "spec"), "restartPolicy") == "OnFailure";
  out.failure_policy = member_object(spec, "podFailurePolicy");
  out.success_policy = member_object(spec, "successPolicy");
  out.replaces_failed_only = out.failure_policy || text_in(spec, "podReplacementPolicy") == "Failed";
  return out;
}

std::optional<std::uint32_t> index_of(const PodReading& pod, std::int64_t completions) {
  const auto index = parse_uint(annotation_value(*pod.object, kIndexKey));
  if (!index || static_cast<std::int64_t>(std::min<std::uint64_t>(*index, INT64_MAX)) >= completions)
    return std::nullopt;
  return static_cast<std::uint32_t>(*index);
}

bool has_failed(const PodReading& pod, const JobSpecReading& spec) {
  if (pod.phase == PodReading::Phase::kFailed)
    return true;
  return !spec.replaces_failed_only && pod.deleting() && pod.phase != PodReading::Phase::kSucceeded;
}

FailureVerdict judge_failure(const PodReading& pod, const JobSpecReading& spec) {
  const json::array* rules = spec.failure_policy ? member_array(*spec.failure_policy, "rules") : nullptr;
  if (!rules)
    return {};
  const std::string who = format("{}/{}", pod.object->meta.ns.get(), pod.object->meta.name);
  for (std::size_t i = 0; i < rules->size(); ++i) {
    const json::value& rule = (*rules)[i];
    const std::string action = text_in(rule, "action");
    std::string met;
    if (const json::object* codes = member_object(rule, "onExitCodes")) {
      if (const auto* end = matching_end(pod, *codes))
        met = format("Container {} for pod {} failed with exit code {}", end->name, who, *end->exit_code);
    } else if (const json::array* conditions = member_array(rule, "onPodConditions")) {
      if (const auto* condition = matching_condition(pod, *conditions))
        met = format("Pod {} has condition {}", who, condition->type);
    }
    if (met.empty())
      continue;
    if (action == "Ignore")
      return {.counts = false};
    if (action == "FailIndex")
      return {.fails_index = true};
    if (action == "FailJob")
      return {.fails_job = format("{} matching {} rule at index {}", met, action, i)};
    if (action == "Count")
      return {};
  }
  return {};
}

std::optional<std::string> met_success_policy(const JobSpecReading& spec, const IntervalSet& succeeded) {
  const json::array* rules = spec.success_policy ? member_array(*spec.success_policy, "rules") : nullptr;
  if (!rules || succeeded.empty() || !spec.completions)
    return std::nullopt;
  for (std::size_t i = 0; i < rules->size(); ++i) {
    const json::value& rule = (*rules)[i];
    const auto count = whole_or_none(rule, "succeededCount");
    std::uint64_t has = succeeded.size(), all = UINT64_MAX;
    if (const json::value* named = member(rule, "succeededIndexes"); named && named->is_string()) {
      const IntervalSet required = read_indexes(text_of(*named), *spec.completions);
      if (required.empty())
        continue;
      IntervalSet missing = required;
      for (const Interval& part : succeeded.intervals()) missing.erase(part.low, part.high);
      all = required.size();
      has = all - missing.size();
    }
    if (has == all || (count && has >= static_cast<std::uint64_t>(std::max<std::int64_t>(0, *count))))
      return format("Matched rules at index {}", i);
  }
  return std::nullopt;
}

WallTime end_of(const PodReading& pod) {
  WallTime last;
  bool all = false;
  for (const PodReading::Container& one : pod.containers) {
    if (one.init)
      continue;
    if (!one.ended) {
      all = false;
      break;
    }
    last = std::max(last, one.ended);
    all = true;
  }
  if (all)
    return last;
  return !pod.ready && pod.ready_since ? pod.ready_since : pod.created;
}

std::int64_t index_failures(const PodReading& pod, std::string_view annotation) {
  const auto count = parse_uint(annotation_value(*pod.object, annotation));
  return count && *count <= static_cast<std::uint64_t>(INT32_MAX) ? static_cast<std::int64_t>(*count) : 0;
}

Duration pause_after(std::int64_t failures) {
  Duration pause = kPauseAtFirst;
  for (std::int64_t i = 1; i < failures && pause < kPauseAtMost; ++i) pause = pause * 2;
  return failures == 0 ? Duration{} : std::min(pause, kPauseAtMost);
}

}  // namespace lockstep::kube
