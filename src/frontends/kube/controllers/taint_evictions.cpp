// Pods that do not bear a NoExecute taint of their node go: at once, or when the time is over for which they bear it.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration, "Taint based Evictions".
#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kEvictedKind{"pods", "v1", "Pod", "taint-eviction-controller"};
constexpr std::string_view kTaintedNodes = "nodes";

json::array evicting_taints(const json::object& node) {
  json::array out;
  if (const json::array* all = member_array(part(node, "spec"), "taints"))
    for (const json::value& taint : *all)
      if (text_in(taint, "effect") == "NoExecute")
        out.push_back(taint);
  return out;
}

bool bears(const json::value& toleration, const json::value& taint) {
  const std::string effect = text_in(toleration, "effect"), key = text_in(toleration, "key");
  if (!effect.empty() && effect != "NoExecute")
    return false;
  const bool exists = text_in(toleration, "operator") == "Exists";
  if (key.empty())
    return exists;
  return key == text_in(taint, "key") && (exists || text_in(toleration, "value") == text_in(taint, "value"));
}

// When the pod has borne the taints for long enough, since they and it are there. Nothing: it bears them for good.
std::optional<WallTime> eviction_time(const json::value& pod_spec, const json::array& taints, WallTime placed) {
  std::optional<WallTime> first;
  const json::array* tolerations = member_array(pod_spec, "tolerations");
  for (const json::value& taint : taints) {
    const WallTime since = std::max(placed, parse_timestamp(text_in(taint, "timeAdded")).value_or(WallTime{}));
    bool borne = false;
    std::optional<std::int64_t> least;
    if (tolerations)
      for (const json::value& one : *tolerations) {
        if (!bears(one, taint))
          continue;
        borne = true;
        if (const json::value* time = member(one, "tolerationSeconds"); time && is_number(*time))
          least = std::min(least.value_or(INT64_MAX), static_cast<std::int64_t>(number_of(*time)));
      }
    if (borne && !least)
      continue;
    const WallTime when{since.us + seconds(borne ? std::clamp<std::int64_t>(*least, 0, INT32_MAX) : 0).us};
    first = std::min(first.value_or(when), when);
  }
  return first;
}

class TaintEvictions final : public Reconciler {
 public:
  std::string_view name() const override { return "taint evictions"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kTaintedNodes)
      return out.push_back(key_of(changed));
    if (changed.type != kPodType || is_deleting(changed))
      return;
    // Nearly no node has such a taint: the pod is not read for it.
    const Ref<Node> place = records_of_pod(view.tables(), changed).node;
    if (!place)
      return;
    if (const auto node = view.find(kTaintedNodes, "", place->meta.name);
        node && node->body.find("NoExecute") != std::string::npos)
      out.push_back(key_of(*node));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto node = view.find(kTaintedNodes, "", std::get<2>(key));
    if (!node || is_deleting(*node) || node->body.find("NoExecute") == std::string::npos)
      return;
    json::object body = body_of(*node);
    const json::array taints = evicting_taints(body);
    if (taints.empty())
      return;
    if (std::ranges::any_of(taints, [](const json::value& taint) { return text_in(taint, "timeAdded").empty(); }))
      return stamp(view, now, *node, std::move(body), out);
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound({std::string(kPodType), "", ""});
         at != objects.end() && std::get<0>(at->first) == kPodType; ++at) {
      const auto pod = view.pod(std::get<1>(at->first), std::get<2>(at->first));
      if (pod->node != node->meta.name || !pod->active())
        continue;
      const json::object tree = body_of(*at->second);
      if (const auto when = eviction_time(part(tree, "spec"), taints, pod->placed))
        evict(view, now, *at->second, *when, out);
    }
  }

 private:
  // Since when it is there, is written into the taint: the time that pods bear it begins.
  static void stamp(const ObjectView& view, Instant now, const Object& node, json::object body, Wishes& out) {
    for (json::value& taint : body["spec"].as_object()["taints"].as_array())
      if (text_in(taint, "effect") == "NoExecute" && text_in(taint, "timeAdded").empty())
        taint.as_object()["timeAdded"] = time_text(now, view.wall_offset());
    wish_changed(out, with_body(node, body), node.meta.seq);
  }

  static void evict(const ObjectView& view, Instant now, const Object& pod, WallTime when, Wishes& out) {
    if (when > wall_time(view, now))
      return out.look_again(instant_of(view, when));
    const std::string message = format("Marking for deletion Pod {}/{}", pod.meta.ns.get(), pod.meta.name);
    out.add(PutObject{disrupted(pod, time_text(now, view.wall_offset()), "DeletionByTaintManager",
                                "Taint manager: deleting due to NoExecute taint"),
                      pod.meta.seq},
            {},
            {RemoveObject{pod.type, pod.meta.ns, pod.meta.name, 0},
             PutObject{event_about(view, now, pod, kEvictedKind, kNormal, "TaintManagerEviction", message), 0}});
  }
};

}  // namespace

std::shared_ptr<const Reconciler> taint_eviction_controller() { return std::make_shared<TaintEvictions>(); }

}  // namespace lockstep::kube
