// How many pods of a PodDisruptionBudget may be taken away now: counted anew whenever one of them changes.
// Source: kubernetes.io/docs/concepts/workloads/pods/disruptions; percentages round up, as its controller's do.
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_scales.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kBudgets = "poddisruptionbudgets.policy";
constexpr WorkloadKind kBudgetKind{"poddisruptionbudgets.policy", "policy/v1", "PodDisruptionBudget",
                                   "controllermanager"};
constexpr Duration kGoesWithin = minutes(2);  // a pod whose eviction was allowed

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
    const WallTime wall = wall_time(view, now);
    const json::value evicted = part(part(body, "status"), "disruptedPods");
    std::int64_t healthy = 0;
    std::vector<Ref<Object>> pods;
    for (const auto& [name, pod] : view.in(kPods, std::get<1>(key))) {
      json::object labels;
      if (pod->meta.extra)
        for (const auto& [name, value] : pod->meta.extra->labels) labels[name] = value;
      if (!wanted->matches(labels))
        continue;
      pods.push_back(pod);
      healthy += is_healthy(pod_as_shown(view.tables(), *pod)) && !is_deleting(*pod) &&
                 !is_about_to_go(evicted, pod->meta.name, wall);
    }
    const auto need = need_of(view, spec, pods);
    if (!need.ok())
      return fail_safe(view, now, *budget, std::move(body), need.error().message, out);
    const auto [expected, desired, unmanaged] = *need;
    if (unmanaged)
      wish_event(out, view, now, *budget, kBudgetKind, kWarning, "UnmanagedPods",
                 format("Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a "
                        "result, the status of the PDB cannot be calculated correctly, which may result in undefined "
                        "behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an "
                        "integer value.",
                        wanted->text()));
    // Of a budget over nothing the first pods are not free to go before they are counted.
    const std::int64_t allowed = expected > 0 ? std::max<std::int64_t>(0, healthy - desired) : 0;
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
    forget_gone(status, view, budget->meta.ns, now, out);
    put_condition(status, allowed > 0, allowed > 0 ? "SufficientPods" : "InsufficientPods", "",
                  time_text(now, view.wall_offset()), status["observedGeneration"]);
    if (same_json(before, status))
      return;
    body["status"] = std::move(status);
    wish_changed(out, with_body(*budget, body), budget->meta.seq);
  }

 private:
  struct Need {
    std::int64_t expected = 0, desired = 0;
    bool unmanaged = false;  // some pods are nobody's: what is expected leaves them out
  };

  // Of a number that must be there the pods are counted; of parts, and of a number that may be missing, what their
  // controllers are to have.
  static Result<Need> need_of(const ObjectView& view, const json::value& spec, const std::vector<Ref<Object>>& pods) {
    Need out;
    const json::value *most = member(spec, "maxUnavailable"), *least = member(spec, "minAvailable");
    if (!most && least && is_number(*least)) {
      out.expected = static_cast<std::int64_t>(pods.size());
      out.desired = amount_of(least, 0).value_or(0);
      return out;
    }
    if (!most && !least)
      return out;
    const PodScales scales = TRY(scales_of(view, pods));
    out.expected = scales.sum;
    out.unmanaged = scales.unmanaged;
    out.desired = most ? std::max<std::int64_t>(0, out.expected - amount_of(most, out.expected).value_or(0))
                       : amount_of(least, out.expected).value_or(0);
    return out;
  }

  // What it is to protect is not known: nothing may be taken away.
  static void fail_safe(const ObjectView& view, Instant now, const Object& budget, json::object body,
                        const std::string& why, Wishes& out) {
    wish_event(out, view, now, budget, kBudgetKind, kWarning, "CalculateExpectedPodCountFailed",
               "Failed to calculate the number of expected pods: " + why);
    json::object status = part(body, "status").is_object() ? part(body, "status").get_object() : json::object();
    status["disruptionsAllowed"] = 0;
    const json::value& seen = part(status, "observedGeneration");
    put_condition(status, false, "SyncFailed", why, time_text(now, view.wall_offset()),
                  seen.is_null() ? json::value(0) : seen);
    wish_status(out, budget, std::move(body), std::move(status));
  }

  // Evicted, and not seen to go so far.
  static bool is_about_to_go(const json::value& evicted, std::string_view pod, WallTime wall) {
    const auto since = parse_timestamp(text_in(evicted, pod));
    return since && since->us + kGoesWithin.us > wall.us;
  }

  // Evicted pods are named until they are seen to go, or do not go.
  static void forget_gone(json::object& status, const ObjectView& view, std::string_view ns, Instant now, Wishes& out) {
    const json::value* had = status.if_contains("disruptedPods");
    if (!had || !had->is_object())
      return;
    json::object left;
    for (const auto& [name, time] : had->get_object()) {
      const auto pod = view.find(kPods, ns, std::string_view(name));
      if (!pod || is_deleting(*pod) || !is_about_to_go(*had, std::string_view(name), wall_time(view, now)))
        continue;
      left[name] = time;
      out.look_again(instant_of(view, WallTime{parse_timestamp(text_of(time))->us + kGoesWithin.us}));
    }
    if (left.empty())
      status.erase("disruptedPods");
    else
      status["disruptedPods"] = std::move(left);
  }

  static void put_condition(json::object& status, bool allowed, const char* reason, const std::string& message,
                            const std::string& time, const json::value& generation) {
    json::object wanted{{"type", "DisruptionAllowed"},
                        {"status", allowed ? "True" : "False"},
                        {"observedGeneration", generation},
                        {"lastTransitionTime", time},
                        {"reason", reason},
                        {"message", message}};
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
