// How many pods of a PodDisruptionBudget may be taken away now: counted anew whenever one of them changes.
// Source: kubernetes.io/docs/concepts/workloads/pods/disruptions; percentages round up, as its controller's do.
#include <algorithm>
#include <boost/json/array.hpp>
#include <map>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kBudgets = "poddisruptionbudgets.policy";
constexpr WorkloadKind kBudgetKind{"poddisruptionbudgets.policy", "policy/v1", "PodDisruptionBudget",
                                   "controllermanager"};

// "30%" of the whole, rounded up, or a plain number; nothing: it is not said.
std::optional<std::int64_t> amount_of(const json::value* said, std::int64_t whole) {
  if (!said)
    return std::nullopt;
  if (is_number(*said))
    return static_cast<std::int64_t>(number_of(*said));
  const std::string_view text = text_of(*said);
  const auto percent = text.ends_with('%') ? parse_uint(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!percent || *percent > 1'000'000)
    return std::nullopt;
  return (whole * static_cast<std::int64_t>(*percent) + 99) / 100;
}

bool is_healthy(const json::value& pod) {
  const json::value* status = member(pod, "status");
  if (const json::array* conditions = status ? member_array(*status, "conditions") : nullptr)
    for (const json::value& one : *conditions) {
      const json::value* type = member(one, "type");
      const json::value* is = member(one, "status");
      if (type && is && text_of(*type) == "Ready")
        return text_of(*is) == "True";
    }
  return false;
}

class DisruptionController final : public Reconciler {
 public:
  std::string_view name() const override { return "disruption"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kBudgets)
      return out.push_back(key_of(changed));
    if (changed.type != kPods)
      return;
    for (const auto& [key, budget] : view.in(kBudgets, changed.meta.ns)) out.push_back(key);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto budget = view.find(kBudgets, std::get<1>(key), std::get<2>(key));
    if (!budget || is_deleting(*budget))
      return;
    json::object body = body_of(*budget);
    const json::value spec = body.contains("spec") ? body["spec"] : json::value(json::object());
    const json::value* selector = member(spec, "selector");
    const auto wanted = selector ? read_label_selector(*selector) : Result<LabelSelector>(LabelSelector{{}, true});
    if (!wanted.ok())
      return;
    std::int64_t healthy = 0;
    std::vector<Ref<Object>> pods;
    for (const auto& [name, pod] : view.in(kPods, std::get<1>(key))) {
      json::object labels;
      if (pod->meta.extra)
        for (const auto& [name, value] : pod->meta.extra->labels) labels[name] = value;
      if (!wanted->matches(labels))
        continue;
      pods.push_back(pod);
      healthy += is_healthy(pod_as_shown(view.tables(), *pod)) && !is_deleting(*pod);
    }
    // Of a number that must be there the pods are counted; of parts, what their controllers are to have.
    const json::value* least_wanted = member(spec, "minAvailable");
    const std::int64_t expected = least_wanted && is_number(*least_wanted) ? static_cast<std::int64_t>(pods.size())
                                                                           : wanted_of_controllers(view, pods);
    std::int64_t desired = 0;
    if (const auto least = amount_of(member(spec, "minAvailable"), expected))
      desired = *least;
    else if (const auto most = amount_of(member(spec, "maxUnavailable"), expected))
      desired = std::max<std::int64_t>(0, expected - *most);
    const std::int64_t allowed = std::max<std::int64_t>(0, healthy - desired);
    json::object status =
        body.contains("status") && body["status"].is_object() ? body["status"].get_object() : json::object();
    const json::object before = status;
    const json::value* generation = member(body["metadata"], "generation");
    status["observedGeneration"] = generation ? *generation : json::value(1);
    status["currentHealthy"] = healthy;
    status["desiredHealthy"] = desired;
    status["expectedPods"] = expected;
    status["disruptionsAllowed"] = allowed;
    if (pods.empty())
      wish_event(out, view, now, *budget, kBudgetKind, kNormal, "NoPods", "No matching pods found");
    forget_gone(status, view, budget->meta.ns);
    put_condition(status, allowed > 0, time_text(now, view.wall_offset()), status["observedGeneration"]);
    if (same_json(before, status))
      return;
    body["status"] = std::move(status);
    wish_changed(out, with_body(*budget, body), budget->meta.seq);
  }

 private:
  // How many pods their controllers are to have together. Pods of nobody are none; of controllers without a number
  // (a DaemonSet, somebody's own) those that are there are counted.
  static std::int64_t wanted_of_controllers(const ObjectView& view, const std::vector<Ref<Object>>& pods) {
    std::map<Uid, std::int64_t> wanted;
    for (const Ref<Object>& pod : pods) {
      const OwnerRef* ref = controller_ref(*pod);
      if (!ref)
        continue;
      Ref<Object> owner = controller_named(view, pod->meta.ns, *ref);
      if (const OwnerRef* above = owner ? controller_ref(*owner) : nullptr)
        if (Ref<Object> other = controller_named(view, pod->meta.ns, *above))
          owner = std::move(other);
      if (owner)
        wanted[owner->meta.uid] = whole_in(part(body_of(*owner), "spec"), "replicas", 1);
      else
        ++wanted[ref->uid];
    }
    std::int64_t sum = 0;
    for (const auto& [uid, count] : wanted) sum += count;
    return sum;
  }

  static Ref<Object> controller_named(const ObjectView& view, std::string_view ns, const OwnerRef& ref) {
    for (const std::string_view type :
         {"replicasets.apps", "deployments.apps", "statefulsets.apps", "replicationcontrollers"})
      if (auto found = view.find(type, ns, ref.name); found && found->meta.uid == ref.uid)
        return found;
    return nullptr;
  }

  // Evicted pods are named until they are seen to go.
  static void forget_gone(json::object& status, const ObjectView& view, std::string_view ns) {
    const json::value* had = status.if_contains("disruptedPods");
    if (!had || !had->is_object())
      return;
    json::object left;
    for (const auto& [name, time] : had->get_object())
      if (const auto pod = view.find(kPods, ns, std::string_view(name)); pod && !is_deleting(*pod))
        left[name] = time;
    if (left.empty())
      status.erase("disruptedPods");
    else
      status["disruptedPods"] = std::move(left);
  }

  static void put_condition(json::object& status, bool allowed, const std::string& time,
                            const json::value& generation) {
    json::object wanted{{"type", "DisruptionAllowed"},
                        {"status", allowed ? "True" : "False"},
                        {"observedGeneration", generation},
                        {"lastTransitionTime", time},
                        {"reason", allowed ? "SufficientPods" : "InsufficientPods"},
                        {"message", ""}};
    json::array conditions;
    if (const json::value* had = status.if_contains("conditions"); had && had->is_array())
      for (const json::value& one : had->get_array()) {
        const json::value* type = member(one, "type");
        if (!type || text_of(*type) != "DisruptionAllowed") {
          conditions.push_back(one);
          continue;
        }
        const json::value* was = member(one, "status");
        const json::value* since = member(one, "lastTransitionTime");
        if (was && since && same_json(*was, wanted["status"]))
          wanted["lastTransitionTime"] = *since;
      }
    conditions.push_back(std::move(wanted));
    status["conditions"] = std::move(conditions);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> disruption_controller() { return std::make_shared<DisruptionController>(); }

}  // namespace lockstep::kube
