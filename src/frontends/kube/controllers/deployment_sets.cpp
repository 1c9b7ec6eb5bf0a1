#include "frontends/kube/controllers/deployment_sets.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kHistoryBytesMax = 2000;
constexpr std::int64_t kNoLimit = INT32_MAX;  // Kubernetes' way to say so
// Annotations of a Deployment that are its own.
constexpr std::string_view kOwnAnnotations[] = {"kubectl.kubernetes.io/last-applied-configuration",
                                                kRevision,
                                                kRevisionHistory,
                                                kDesiredReplicas,
                                                kMaxReplicas,
                                                "deprecated.deployment.rollback.to"};

json::object& annotations_of(json::object& tree) {
  json::value& metadata = tree["metadata"];
  json::object& in = metadata.is_object() ? metadata.get_object() : metadata.emplace_object();
  json::value& all = in["annotations"];
  return all.is_object() ? all.get_object() : all.emplace_object();
}

json::value without_hash(const json::value& pod_template) {
  json::value out = pod_template;
  if (json::object* tree = out.if_object())
    if (json::value* metadata = tree->if_contains("metadata"); metadata && metadata->is_object()) {
      if (json::value* labels = metadata->get_object().if_contains("labels"); labels && labels->is_object())
        labels->get_object().erase(kTemplateHash);
      metadata->get_object().erase("creationTimestamp");
    }
  return out;
}

std::string joined_history(const std::string& had, const std::string& more) {
  if (had.empty())
    return more;
  std::string_view kept = had;
  while (kept.size() + more.size() + 1 > kHistoryBytesMax && !kept.empty()) {
    const std::size_t comma = kept.find(',');
    kept = comma == std::string_view::npos ? std::string_view() : kept.substr(comma + 1);
  }
  return kept.empty() ? more : std::string(kept) + "," + more;
}

std::int64_t stated_size(const RolloutSet& set, const char* key) {
  const auto said = parse_uint(set.annotation(key));
  return said && *said <= static_cast<std::uint64_t>(INT32_MAX) ? static_cast<std::int64_t>(*said) : -1;
}

// The set's part of what is added: what keeps its share of the Deployment's size, rounded to the nearest.
std::int64_t share_of(const RolloutSet& set, const RolloutPlan& plan) {
  if (plan.wanted == 0)
    return -set.size;
  std::int64_t before = stated_size(set, kMaxReplicas);
  if (before <= 0)
    before = plan.replicas_told;
  if (before <= 0)
    return 0;
  const double size = static_cast<double>(set.size) * static_cast<double>(plan.most()) / static_cast<double>(before);
  return std::llround(size) - set.size;
}

}  // namespace

std::string RolloutSet::name() const { return text_in(part(tree, "metadata"), "name"); }

std::string RolloutSet::annotation(std::string_view key) const {
  return text_in(part(part(tree, "metadata"), "annotations"), key);
}

bool RolloutSet::annotate(std::string_view key, const std::string& value) {
  json::value& at = annotations_of(tree)[key];
  if (at.is_string() && text_of(at) == value)
    return false;
  at = value;
  return changed = true;
}

std::int64_t RolloutSet::revision() const { return parse_int(annotation(kRevision)).value_or(0); }

void RolloutSet::resize(std::int64_t to) {
  if (to == size)
    return;
  size = to;
  tree["spec"].as_object()["replicas"] = to;
  changed = asks_otherwise = true;
}

RolloutSet rollout_set(Ref<Object> object) {
  RolloutSet set;
  set.tree = whole_tree(*object);
  const json::value& status = part(set.tree, "status");
  set.size = whole_in(part(set.tree, "spec"), "replicas", 1);
  set.replicas = whole_in(status, "replicas", 0);
  set.ready = whole_in(status, "readyReplicas", 0);
  set.available = whole_in(status, "availableReplicas", 0);
  set.seen = whole_in(status, "observedGeneration", 0);
  set.created = parse_timestamp(text_in(part(set.tree, "metadata"), "creationTimestamp")).value_or(WallTime{});
  set.object = std::move(object);
  return set;
}

RolloutPlan rollout_plan(const json::object& deployment) {
  const json::value& spec = part(deployment, "spec");
  const json::value& strategy = part(spec, "strategy");
  RolloutPlan plan;
  plan.wanted = std::max<std::int64_t>(0, whole_in(spec, "replicas", 1));
  plan.min_ready = whole_in(spec, "minReadySeconds", 0);
  plan.paused = truth_in(spec, "paused");
  plan.recreates = text_in(strategy, "type") == "Recreate";
  if (const std::int64_t limit = whole_in(spec, "revisionHistoryLimit", 10); limit != kNoLimit)
    plan.history_limit = limit;
  if (const std::int64_t deadline = whole_in(spec, "progressDeadlineSeconds", kNoLimit); deadline != kNoLimit)
    plan.deadline_seconds = deadline;
  plan.replicas_told = whole_in(part(deployment, "status"), "replicas", 0);
  if (plan.recreates)
    return plan;
  const json::value& rolling = part(strategy, "rollingUpdate");
  plan.surge_max = amount_in(part(rolling, "maxSurge"), plan.wanted, Round::kUp).value_or(0);
  plan.unavailable_max = amount_in(part(rolling, "maxUnavailable"), plan.wanted, Round::kDown).value_or(0);
  if (plan.surge_max == 0 && plan.unavailable_max == 0)
    plan.unavailable_max = 1;  // both were rounded down to nothing: it could never go on
  plan.unavailable_max = std::min(plan.unavailable_max, plan.wanted);
  return plan;
}

std::int64_t sizes_of(const Sets& sets) {
  std::int64_t sum = 0;
  for (const RolloutSet* set : sets) sum += set ? set->size : 0;
  return sum;
}

std::int64_t replicas_of(const Sets& sets) {
  std::int64_t sum = 0;
  for (const RolloutSet* set : sets) sum += set ? set->replicas : 0;
  return sum;
}

std::int64_t available_of(const Sets& sets) {
  std::int64_t sum = 0;
  for (const RolloutSet* set : sets) sum += set ? set->available : 0;
  return sum;
}

Sets active_of(const Sets& sets) {
  Sets out;
  for (RolloutSet* set : sets)
    if (set && set->size > 0)
      out.push_back(set);
  return out;
}

void oldest_first(Sets& sets) {
  std::ranges::sort(sets, [](const RolloutSet* a, const RolloutSet* b) {
    return a->created != b->created ? a->created < b->created : a->name() < b->name();
  });
}

void by_revision(Sets& sets) {
  oldest_first(sets);
  std::ranges::stable_sort(sets, {}, [](const RolloutSet* set) { return set->revision(); });
}

bool same_template(const json::value& a, const json::value& b) { return same_json(without_hash(a), without_hash(b)); }

void scale_in_proportion(const RolloutPlan& plan, Sets sets) {
  sets = active_of(sets);
  const std::int64_t allowed = plan.wanted > 0 ? plan.most() : 0;
  const std::int64_t to_add = allowed - sizes_of(sets);
  oldest_first(sets);
  if (to_add > 0)
    std::ranges::reverse(sets);  // of sets of one size the newer is scaled up first, and the older down
  std::ranges::stable_sort(sets, std::greater(), &RolloutSet::size);
  std::int64_t added = 0;
  std::vector<std::int64_t> sizes;
  for (const RolloutSet* set : sets) {
    std::int64_t more = 0;
    if (to_add != 0 && to_add != added)
      more =
          to_add > 0 ? std::min(share_of(*set, plan), to_add - added) : std::max(share_of(*set, plan), to_add - added);
    sizes.push_back(set->size + more);
    added += more;
  }
  if (!sizes.empty() && to_add != 0)
    sizes[0] = std::max<std::int64_t>(0, sizes[0] + to_add - added);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    sets[i]->resize(sizes[i]);
    mark_sizes(*sets[i], plan);
  }
}

RolloutSet* only_active(RolloutSet* newest, const Sets& old) {
  Sets all = old;
  all.push_back(newest);
  const Sets active = active_of(all);
  if (active.size() == 1)
    return active.front();
  if (!active.empty())
    return nullptr;
  if (newest || old.empty())
    return newest;
  Sets sorted = old;
  oldest_first(sorted);
  return sorted.back();
}

bool mark_sizes(RolloutSet& set, const RolloutPlan& plan) {
  const bool desired = set.annotate(kDesiredReplicas, std::to_string(plan.wanted));
  return set.annotate(kMaxReplicas, std::to_string(plan.most())) || desired;
}

void mark_newest(RolloutSet& set, const json::object& deployment, std::int64_t revision, const RolloutPlan& plan) {
  if (const json::object* all = member_object(part(deployment, "metadata"), "annotations"))
    for (const auto& [key, value] : *all)
      if (std::ranges::find(kOwnAnnotations, std::string_view(key)) == std::end(kOwnAnnotations))
        set.annotate(key, std::string(text_of(value)));
  const std::string had = set.annotation(kRevision);
  if (set.revision() < revision) {
    set.annotate(kRevision, std::to_string(revision));
    if (!had.empty())  // it was rolled back to
      set.annotate(kRevisionHistory, joined_history(set.annotation(kRevisionHistory), had));
  }
  if (!set.object)
    mark_sizes(set, plan);
  if (whole_in(part(set.tree, "spec"), "minReadySeconds", 0) != plan.min_ready) {
    set.tree["spec"].as_object()["minReadySeconds"] = plan.min_ready;
    set.changed = set.asks_otherwise = true;
  }
}

}  // namespace lockstep::kube
