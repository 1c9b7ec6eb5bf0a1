// Jobs and CronJobs: counts within bounds, policies that can be followed, schedules that can be read, and what of a
// Job is fixed once it is there.
// Source: kubernetes.io/docs/concepts/workloads/controllers/job, …/cron-jobs; messages are those of k8s.io/kubernetes
// pkg/apis/batch/validation.
#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/cron_schedule.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_templates.h"
#include "frontends/kube/kinds/time_zone.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kIndexedMax = 100'000;
constexpr std::size_t kRulesMax = 20, kExitCodesMax = 255, kConditionsMax = 20;
constexpr std::size_t kCronNameMax = 52;  // what follows in a Job's name has 11

std::set<std::string> container_names(const Place& pod_spec) {
  std::set<std::string> out;
  for (const char* list : {"initContainers", "containers"})
    for (const Place& one : pod_spec[list].each()) out.insert(one["name"].text());
  return out;
}

void check_exit_codes(const Place& rule, const Place& codes, const std::set<std::string>& containers) {
  const bool in = codes["operator"].is("In");
  codes["operator"].one_of({"In", "NotIn"});
  if (const Place name = codes["containerName"]; name.there() && !containers.contains(name.text()))
    name.invalid("must be one of the container or initContainer names in the pod template");
  const auto values = codes["values"].each();
  if (values.empty())
    codes["values"].invalid("at least one value is required");
  if (values.size() > kExitCodesMax)
    rule.out().push_back(field_too_many(codes["values"].path(), values.size(), kExitCodesMax));
  std::set<std::int64_t> seen;
  for (const Place& value : values) {
    const std::int64_t code = value.number().value_or(0);
    if (in && code == 0)
      value.invalid("must not be 0 for the In operator");
    if (!seen.insert(code).second)
      value.duplicate();
  }
}

void check_failure_policy(const Place& spec) {
  const Place policy = spec["podFailurePolicy"];
  if (!policy.there())
    return;
  const std::set<std::string> containers = container_names(spec["template"]["spec"]);
  const auto rules = policy["rules"].each();
  if (rules.size() > kRulesMax)
    spec.out().push_back(field_too_many(policy["rules"].path(), rules.size(), kRulesMax));
  for (const Place& rule : rules) {
    const Place action = rule["action"], codes = rule["onExitCodes"], conditions = rule["onPodConditions"];
    if (action.is("FailIndex") && !spec["backoffLimitPerIndex"].there())
      action.invalid("requires the backoffLimitPerIndex to be set");
    if (codes.there())
      check_exit_codes(rule, codes, containers);
    for (const Place& one : conditions.each()) {
      one["type"].qualified_name();
      if (const Place status = one["status"]; status.there())
        status.one_of({"False", "True", "Unknown"});
    }
    if (conditions.each().size() > kConditionsMax)
      rule.out().push_back(field_too_many(conditions.path(), conditions.each().size(), kConditionsMax));
    if (codes.there() && !conditions.empty())
      rule.invalid("specifying both OnExitCodes and OnPodConditions is not supported");
    else if (!codes.there() && conditions.empty())
      rule.invalid("specifying one of OnExitCodes and OnPodConditions is required");
  }
}

// "0,2-4": how many indexes it names. -1: it cannot be read, or names one beyond `completions`.
std::int64_t count_of_indexes(const std::string& text, std::int64_t completions) {
  std::int64_t count = 0, last = -1;
  for (const std::string& piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    const auto from = parse_int(piece.substr(0, dash));
    const auto to = dash == piece.npos ? from : parse_int(piece.substr(dash + 1));
    if (!from || !to || *from <= last || *to < *from || *to >= completions)
      return -1;
    count += *to - *from + 1;
    last = *to;
  }
  return count;
}

void check_success_policy(const Place& spec) {
  const Place policy = spec["successPolicy"];
  if (!policy.there())
    return;
  if (!spec["completionMode"].is("Indexed"))
    return policy.invalid("requires indexed completion mode");
  const auto rules = policy["rules"].each();
  if (rules.empty())
    policy["rules"].required("at least one rules must be specified when the successPolicy is specified");
  if (rules.size() > kRulesMax)
    spec.out().push_back(field_too_many(policy["rules"].path(), rules.size(), kRulesMax));
  const std::int64_t completions = spec["completions"].number().value_or(0);
  for (const Place& rule : rules) {
    const Place indexes = rule["succeededIndexes"], count = rule["succeededCount"];
    if (!indexes.there() && !count.there())
      rule.required("at least one of succeededCount or succeededIndexes must be specified");
    const std::int64_t named = indexes.empty() ? completions : count_of_indexes(indexes.text(), completions);
    if (named < 0)
      indexes.invalid(format("error parsing succeededIndexes: not a list of indexes below {}", completions));
    count.at_least(0);
    if (const auto has = count.number(); has && *has > completions)
      count.invalid(format("must be less than or equal to {} (the number of specified completions)", completions));
    else if (has && named >= 0 && *has > named)
      count.invalid(format(
          "must be less than or equal to {} (the number of indexes in the specified succeededIndexes field)", named));
  }
}

void check_indexes(const Place& spec) {
  const auto completions = spec["completions"].number();
  if (spec["completionMode"].is("Indexed")) {
    if (const auto parallel = spec["parallelism"].number(); parallel && *parallel > kIndexedMax)
      spec["parallelism"].invalid(
          format("must be less than or equal to {} when completion mode is Indexed", kIndexedMax));
    if (const auto failed = spec["maxFailedIndexes"].number(); failed && completions && *failed > *completions)
      spec["maxFailedIndexes"].invalid("must be less than or equal to completions");
    spec["backoffLimitPerIndex"].at_least(0);
    spec["maxFailedIndexes"].at_least(0);
    return;
  }
  if (spec["backoffLimitPerIndex"].there())
    spec["backoffLimitPerIndex"].invalid("requires indexed completion mode");
  if (spec["maxFailedIndexes"].there())
    spec["maxFailedIndexes"].invalid("requires indexed completion mode");
}

void check_job(const Place& spec) {
  for (const char* key :
       {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"})
    spec[key].at_least(0);
  check_indexes(spec);
  if (const Place by = spec["managedBy"]; by.there()) {
    const auto parts = split(by.text(), '/');
    if (parts.size() < 2 || parts[0].empty() || parts[1].empty())
      by.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
  }
  const Place made = spec["template"], restart = made["spec"]["restartPolicy"];
  check_template(made);
  if (restart.empty() || restart.is("Always"))
    restart.required("valid values: \"OnFailure\", \"Never\"");
  else
    restart.one_of({"OnFailure", "Never"});
  check_failure_policy(spec);
  check_success_policy(spec);
  if (spec["podFailurePolicy"].there() && restart.is("OnFailure"))
    restart.invalid("only \"Never\" is supported when podFailurePolicy is specified");
}

// Its user's own selector, where he says that it is.
void check_job_selector(const Place& spec) {
  const Place selector = spec["selector"];
  if (!spec["manualSelector"].flag()) {
    if (!selector.empty())
      selector.invalid("`selector` not auto-generated");
    return;
  }
  if (!selector.there())
    selector.required();
  else if (!check_selector(selector))
    return;
  check_labels_match(selector, spec["template"], false);
}

// Directives of placement may change while nothing of it has started.
json::value without_directives(const json::value& pod_template, bool all) {
  json::value kept = pod_template;
  if (!all || !kept.is_object())
    return kept;
  if (json::value* metadata = kept.get_object().if_contains("metadata"); metadata && metadata->is_object())
    for (const char* key : {"labels", "annotations"}) metadata->get_object().erase(key);
  if (json::value* spec = kept.get_object().if_contains("spec"); spec && spec->is_object())
    for (const char* key : {"nodeSelector", "tolerations", "schedulingGates", "affinity"})
      spec->get_object().erase(key);
  return kept;
}

void check_job_change(const Place& spec, const Place& before, bool started) {
  const bool free = before["suspend"].flag() && !started;
  const Place completions = spec["completions"];
  const bool elastic =
      spec["completionMode"].is("Indexed") && same_json(completions.value(), spec["parallelism"].value());
  if (!elastic)
    completions.same_as(before["completions"]);
  for (const char* fixed : {"completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"})
    spec[fixed].same_as(before[fixed]);
  if (before["selector"].there())  // its controller gives it one
    spec["selector"].same_as(before["selector"]);
  const Place made = spec["template"];
  if (before["selector"].there() &&
      !same_json(without_directives(made.value(), free), without_directives(before["template"].value(), free)))
    made.invalid("field is immutable");
}

// The last index makes the longest name.
void check_pod_name(const Place& name, const Place& spec) {
  const std::int64_t completions = spec["completions"].number().value_or(0);
  if (!spec["completionMode"].is("Indexed") || completions <= 0)
    return;
  const std::string last = format("{}-{}", name.text(), completions - 1);
  if (!dns_label_faults(last).empty())
    name.invalid("will not able to create pod with invalid DNS label: " + last);
}

class JobRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    check_job(spec);
    if (!old) {
      check_pod_name(Place(part(part(tree, "metadata"), "name"), "metadata.name", out), spec);
      return check_job_selector(spec);
    }
    check_job_change(spec, Place(part(*old, "spec"), "spec", out), !text_in(part(*old, "status"), "startTime").empty());
  }
};

class CronJobRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    if (const Place name(part(part(tree, "metadata"), "name"), "metadata.name", out);
        !old && name.text().size() > kCronNameMax)
      name.invalid(format("must be no more than {} characters", kCronNameMax));
    check_schedule(spec);
    for (const char* key : {"startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"})
      spec[key].at_least(0);
    const Place job = spec["jobTemplate"]["spec"];
    check_job(job);
    if (job["manualSelector"].flag())
      job["manualSelector"].not_supported({"nil", "false"});
  }

 private:
  static void check_schedule(const Place& spec) {
    const Place schedule = spec["schedule"], zone = spec["timeZone"];
    const std::string text = schedule.text();
    if (zone.there() && (zone.text().empty() || !TimeZone::find(zone.text())))
      zone.invalid("unknown time zone " + zone.text());
    if (text.empty())
      return schedule.required();
    if (text.find("TZ") != text.npos)
      return schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    if (const auto read = CronSchedule::parse(text, TimeZone::find("")); !read.ok())
      schedule.invalid(read.error().message);
  }
};

}  // namespace

const KindRules& job_rules() {
  static const JobRules rules;
  return rules;
}
const KindRules& cron_job_rules() {
  static const CronJobRules rules;
  return rules;
}

}  // namespace lockstep::kube
