// ReplicaSets and ReplicationControllers: as many pods of one template as they say.
// Source: kubernetes.io/docs/concepts/workloads/controllers/replicaset.
#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_pod.h"
#include "frontends/kube/controllers/pod_ranks.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kReplicaSetKind{"replicasets.apps", "apps/v1", "ReplicaSet", "replicaset-controller"};
constexpr WorkloadKind kReplicationKind{"replicationcontrollers", "v1", "ReplicationController",
                                        "replication-controller"};
constexpr const char* kReplicaFailure = "ReplicaFailure";

// What one look at a set found.
struct ReplicaLook {
  const ObjectView& view;
  Instant now;
  WallTime wall;
  const WorkloadKind& kind;
  const Object& set;
  json::object body;
  Pods pods;           // active ones that it has
  WallTime pause_end;  // before it makes no pod: nodes have refused the last ones
  std::int64_t wanted = 1, min_ready = 0;
  bool is_asking = false;  // whether more pods can be made: a failure that is told stays told
};

WallTime replicas_fail_since(const json::object& status) {
  const json::value* failure = find_condition(status, kReplicaFailure);
  return failure ? parse_timestamp(text_in(*failure, "lastTransitionTime")).value_or(WallTime{}) : WallTime{};
}

// Active pods of all sets with the same controller (a Deployment's), node by node.
std::map<std::string, int> crowds(const ReplicaLook& look) {
  std::map<std::string, int> out;
  const auto count = [&](const Object& set) {
    for (const ObjectKey& key : look.view.dependents(set.meta.uid))
      if (std::get<0>(key) == kPodType)
        if (const auto pod = look.view.pod(std::get<1>(key), std::get<2>(key)); pod && pod->active())
          ++out[pod->node];
  };
  const OwnerRef* owner = controller_ref(look.set);
  if (!owner) {
    count(look.set);
    return out;
  }
  for (const ObjectKey& key : look.view.dependents(owner->uid))
    if (std::get<0>(key) == look.kind.type)
      if (const auto sibling = look.view.find(look.kind.type, std::get<1>(key), std::get<2>(key)))
        count(*sibling);
  return out;
}

// Pods that their node has refused stay, and others are made in their place: the more there were of late, the later.
WallTime pause_after_refusals(const ReplicaLook& look) {
  constexpr Duration kFirst = seconds(1), kMost = minutes(1), kOfLate = minutes(10);
  constexpr int kDoublings = 6;
  WallTime last;
  int refused = 0;
  for (const ObjectKey& key : look.view.dependents(look.set.meta.uid)) {
    if (std::get<0>(key) != kPodType)
      continue;
    const auto pod = look.view.pod(std::get<1>(key), std::get<2>(key));
    if (!pod || !pod->refused() || pod->created.us + kOfLate.us < look.wall.us)
      continue;
    ++refused;
    last = std::max(last, pod->created);
  }
  if (refused == 0)
    return {};
  const std::int64_t pause = std::min(kMost.us, kFirst.us << std::min(refused - 1, kDoublings));
  return {last.us + pause};
}

// Why not all pods could be made; nothing: they could.
std::optional<std::string> fit_number(ReplicaLook& look, Wishes& out) {
  const std::int64_t have = static_cast<std::int64_t>(look.pods.size());
  if (have > look.wanted) {
    Pods going = look.pods;
    if (look.wanted > 0)
      rank_for_deletion(going, crowds(look), look.wall);
    going.resize(static_cast<std::size_t>(have - look.wanted));
    for (const auto& pod : going) wish_pod_gone(out, look.view, look.now, look.set, look.kind, *pod->object);
    return std::nullopt;
  }
  if (have == look.wanted || !takes_new_objects(look.view, look.set.meta.ns))
    return std::nullopt;
  if (look.pause_end > look.wall) {
    out.look_again(instant_of(look.view, look.pause_end));
    return std::nullopt;
  }
  NewPods made(look.view, look.now, look.set, look.kind, out);
  if (made.must_wait(look.wanted, 0, out))
    return std::nullopt;
  const json::value& pod_template = part(part(look.body, "spec"), "template");
  std::optional<std::string> refused;
  for (std::int64_t i = have; i < look.wanted && !refused && !made.full(); ++i)
    refused = made.add(pod_from_template(pod_template, look.set, look.kind));
  made.wish(out);
  look.is_asking = made.is_asking();
  return refused;
}

json::object status_of(const ReplicaLook& look, const std::optional<std::string>& refused) {
  const json::object* had = member_object(look.body, "status");
  json::object status = had ? *had : json::object();
  std::int64_t labelled = 0, ready = 0, available = 0;
  const json::object* labels = member_object(part(part(part(look.body, "spec"), "template"), "metadata"), "labels");
  const LabelSelector alike = select_labels(labels ? *labels : json::object());
  for (const auto& pod : look.pods) {
    labelled += selects(alike, *pod->object);
    ready += pod->ready;
    available += pod->available(seconds(look.min_ready), look.wall);
  }
  status["replicas"] = look.pods.size();
  for (const auto& [key, count] : {std::pair{"fullyLabeledReplicas", labelled},
                                   {"readyReplicas", ready},
                                   {"availableReplicas", available},
                                   {"observedGeneration", generation_of(look.body)}}) {
    if (count != 0)
      status[key] = count;
    else
      status.erase(key);
  }
  if (!refused && !look.is_asking)
    drop_condition(status, kReplicaFailure);
  else if (refused && !find_condition(status, kReplicaFailure))
    add_condition(status, {{"type", kReplicaFailure},
                           {"status", "True"},
                           {"lastTransitionTime", time_text(look.now, look.view.wall_offset())},
                           {"reason", "FailedCreate"},
                           {"message", *refused}});
  return status;
}

// A ready pod becomes available by the time alone.
void look_when_available(const ReplicaLook& look, Wishes& out) {
  for (const auto& pod : look.pods)
    if (pod->ready && pod->ready_since && !pod->available(seconds(look.min_ready), look.wall))
      out.look_again(instant_of(look.view, {pod->ready_since.us + seconds(look.min_ready).us}));
}

class ReplicaController final : public Reconciler {
 public:
  explicit ReplicaController(const WorkloadKind& kind) : kind_(kind) {}
  std::string_view name() const override { return kind_.component; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kind_.type)
      out.push_back(key_of(changed));
    else if (changed.type == kPodType)
      wake_owner(view, changed, kind_, out);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto set = view.find(kind_.type, std::get<1>(key), std::get<2>(key));
    if (!set)
      return;
    ReplicaLook look{view, now, wall_time(view, now), kind_, *set, body_of(*set), {}, {}, 1, 0};
    const json::value& spec = part(look.body, "spec");
    look.wanted = std::max<std::int64_t>(0, whole_in(spec, "replicas", 1));
    look.min_ready = std::max<std::int64_t>(0, whole_in(spec, "minReadySeconds", 0));
    const auto active = [&](const Object& pod) { return view.pod(pod.meta.ns.get(), pod.meta.name)->active(); };
    for (const Ref<Object>& pod : claim(view, *set, kind_, selector_of(look.body), kPodType, out, active))
      look.pods.push_back(view.pod(pod->meta.ns.get(), pod->meta.name));
    std::optional<std::string> refused;
    if (static_cast<std::int64_t>(look.pods.size()) < look.wanted)
      look.pause_end = pause_after_refusals(look);
    if (!is_deleting(*set))
      refused = fit_number(look, out);
    const json::object* had = member_object(look.body, "status");
    if (refused)
      wish_failed_create(out, view, now, *set, kind_, *refused, had ? replicas_fail_since(*had) : WallTime{});
    wish_status(out, *set, look.body, status_of(look, refused));
    look_when_available(look, out);
  }

 private:
  // A ReplicationController selects by a plain map of labels: its template's, where it says none.
  LabelSelector selector_of(const json::object& body) const {
    const json::value& spec = part(body, "spec");
    if (kind_.type == kReplicaSetKind.type)
      return selector_in(spec);
    const json::object* labels = member_object(spec, "selector");
    if (!labels || labels->empty())
      labels = member_object(part(part(spec, "template"), "metadata"), "labels");
    return labels && !labels->empty() ? select_labels(*labels) : LabelSelector{{}, true};
  }

  const WorkloadKind& kind_;
};

}  // namespace

std::shared_ptr<const Reconciler> replica_set_controller() {
  return std::make_shared<ReplicaController>(kReplicaSetKind);
}

std::shared_ptr<const Reconciler> replication_controller() {
  return std::make_shared<ReplicaController>(kReplicationKind);
}

}  // namespace lockstep::kube
