// DaemonSets: one pod on each node that their template fits.
// Source: kubernetes.io/docs/concepts/workloads/controllers/daemonset.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "frontends/kube/controllers/controller_history.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_pod.h"
#include "frontends/kube/controllers/pod_ranks.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kDaemonKind{"daemonsets.apps", "apps/v1", "DaemonSet", "daemonset-controller"};
constexpr std::string_view kNodeObjects = "nodes";
constexpr Duration kFailedPause = seconds(10);  // between beginnings of a pod that fails again and again

// What daemons bear of their node: they stay when it is lost.
constexpr std::pair<const char*, const char*> kBorne[] = {
    {"node.kubernetes.io/not-ready", "NoExecute"},      {"node.kubernetes.io/unreachable", "NoExecute"},
    {"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
    {"node.kubernetes.io/pid-pressure", "NoSchedule"},  {"node.kubernetes.io/unschedulable", "NoSchedule"}};

json::object& object_in(json::value& value) { return value.is_object() ? value.get_object() : value.emplace_object(); }

void bear_conditions(json::object& spec) {
  json::value& value = spec["tolerations"];
  json::array& all = value.is_array() ? value.get_array() : value.emplace_array();
  const auto bear = [&](const char* key, const char* effect) {
    const bool there = std::ranges::any_of(all, [&](const json::value& one) {
      return text_in(one, "key") == key && text_in(one, "operator") == "Exists" && text_in(one, "effect") == effect &&
             !member(one, "tolerationSeconds");
    });
    if (!there)
      all.push_back({{"key", key}, {"operator", "Exists"}, {"effect", effect}});
  };
  for (const auto& [key, effect] : kBorne) bear(key, effect);
  if (truth_in(spec, "hostNetwork"))
    bear("node.kubernetes.io/network-unavailable", "NoSchedule");
}

// Binds the pod to the node; what else its node affinity asks for is true there.
void bind_to(json::object& spec, const std::string& node) {
  json::object& affinity = object_in(spec["affinity"]);
  json::object& nodes = object_in(affinity["nodeAffinity"]);
  json::object by_name{{"key", "metadata.name"}, {"operator", "In"}};
  by_name["values"] = json::array{json::string_view(node)};
  json::object term;
  term["matchFields"] = json::array{std::move(by_name)};
  json::object required;
  required["nodeSelectorTerms"] = json::array{std::move(term)};
  nodes["requiredDuringSchedulingIgnoredDuringExecution"] = std::move(required);
}

// The node that the pod is on, or is bound to.
std::string target_of(const PodReading& pod) {
  if (!pod.node.empty())
    return pod.node;
  const json::object body = body_of(*pod.object);
  const json::value& required = part(part(part(part(body, "spec"), "affinity"), "nodeAffinity"),
                                     "requiredDuringSchedulingIgnoredDuringExecution");
  if (const json::array* terms = member_array(required, "nodeSelectorTerms"))
    for (const json::value& term : *terms)
      if (const json::array* fields = member_array(term, "matchFields"))
        for (const json::value& field : *fields)
          if (const json::array* values = member_array(field, "values");
              values && values->size() == 1 && text_in(field, "key") == "metadata.name")
            return std::string(text_of(values->front()));
  return "";
}

struct DaemonNode {
  bool runs = false;   // one is to be there
  bool stays = false;  // one that is there may stay
};

class DaemonLook {
 public:
  DaemonLook(const ObjectView& view, Instant now, const Object& set, Wishes& out)
      : view_(view), now_(now), wall_(wall_time(view, now)), set_(set), out_(out), body_(whole_tree(set)) {}

  void look() {
    const json::value& spec = part(body_, "spec");
    const LabelSelector selector = selector_in(spec);
    if (selector.nothing)
      return wish_event(out_, view_, now_, set_, kDaemonKind, kWarning, "SelectingAll",
                        "This daemon set is selecting all pods. A non-empty selector is required.");
    if (is_deleting(set_))
      return;
    min_ready_ = seconds(whole_in(spec, "minReadySeconds", 0));
    book_ = keep_history(view_, now_, set_, body_, kDaemonKind, kRevisionHash, out_);
    find_pods(selector);
    find_nodes();
    if (!book_.name_is_taken) {
      manage();
      if (text_in(part(spec, "updateStrategy"), "type") != "OnDelete")
        roll();
      act();
      trim();
    }
    tell();
  }

 private:
  // --- what there is ---

  void find_pods(const LabelSelector& selector) {
    for (const Ref<Object>& pod :
         claim(view_, set_, kDaemonKind, selector, kPodType, out_, [](const Object&) { return true; })) {
      const auto reading = view_.pod(pod->meta.ns.get(), pod->meta.name);
      live_.insert(std::string(label_value(*pod, kRevisionHash)));
      if (!(reading->ended() && reading->deleting()))
        pods_[target_of(*reading)].push_back(reading);
    }
    for (auto& [node, pods] : pods_)
      std::ranges::sort(pods, [](const auto& a, const auto& b) {
        if (a->node.empty() != b->node.empty())
          return b->node.empty();
        return a->created != b->created ? a->created < b->created : a->object->meta.name < b->object->meta.name;
      });
  }

  void find_nodes() {
    json::object pod;
    pod["metadata"] = part(part(part(body_, "spec"), "template"), "metadata");
    pod["spec"] = part(part(part(body_, "spec"), "template"), "spec");
    bear_conditions(object_in(pod["spec"]));
    const std::string named = text_in(part(pod, "spec"), "nodeName");
    pod["spec"].as_object().erase("nodeName");
    const auto& objects = view_.objects();
    for (auto at = objects.lower_bound({std::string(kNodeObjects), "", ""});
         at != objects.end() && std::get<0>(at->first) == kNodeObjects; ++at) {
      const std::string& name = at->second->meta.name;
      if (is_deleting(*at->second))
        continue;
      DaemonNode& node = nodes_[name];
      if (!named.empty() && named != name)
        continue;
      json::object tree = whole_tree(*at->second);
      if (const Node* record = view_.tables().node(name))
        show_node(tree, *record, now_, view_.wall_offset());
      const json::value taints = part(part(tree, "spec"), "taints");
      if (json::value* spec = tree.if_contains("spec"); spec && spec->is_object())
        spec->get_object().erase("taints");
      if (!node_refuses(pod, tree).empty())
        continue;
      node = {true, true};
      if (const json::array* all = taints.if_array())
        for (const json::value& taint : *all) {
          const std::string effect = text_in(taint, "effect");
          if (effect == "PreferNoSchedule" || tolerates(part(pod, "spec"), taint))
            continue;
          node.runs = false;
          node.stays &= effect != "NoExecute";
        }
    }
  }

  bool available(const PodReading& pod) const { return pod.available(min_ready_, wall_); }
  bool is_new(const PodReading& pod) const { return label_value(*pod.object, kRevisionHash) == book_.newest_hash; }

  std::int64_t wanted_nodes() const {
    return std::ranges::count_if(nodes_, [](const auto& node) { return node.second.runs; });
  }

  // --- what is to be on each node ---

  void manage() {
    surge_max_ = amount_of("maxSurge", Round::kUp);
    unavailable_max_ = amount_of("maxUnavailable", Round::kUp);
    if (wanted_nodes() > 0 && surge_max_ == 0 && unavailable_max_ == 0)
      unavailable_max_ = 1;
    for (const auto& [name, node] : nodes_) {
      const auto there = pods_.find(name);
      if (node.runs && there == pods_.end())
        make_.push_back(name);
      else if (there != pods_.end() && node.stays)
        keep_one(name, node, there->second);
      else if (there != pods_.end())
        for (const auto& pod : there->second) drop(*pod);
    }
    for (const auto& [name, pods] : pods_)
      if (!nodes_.contains(name))
        for (const auto& pod : pods)
          if (pod->node.empty())
            drop(*pod);  // its node is gone before it was there
  }

  std::int64_t amount_of(const char* key, Round round) const {
    const json::value& rolling = part(part(part(body_, "spec"), "updateStrategy"), "rollingUpdate");
    return amount_in(part(rolling, key), wanted_nodes(), round).value_or(0);
  }

  void keep_one(const std::string& name, const DaemonNode& node, const Pods& pods) {
    Pods running;
    for (const auto& pod : pods) {
      if (pod->deleting())
        continue;
      if (pod->ended())
        drop_ended(*pod, name);
      else
        running.push_back(pod);
    }
    if (surge_max_ == 0) {
      for (std::size_t i = 1; i < running.size(); ++i) drop(*running[i]);
      return;
    }
    if (running.empty() && node.runs)
      make_.push_back(name);
    if (running.size() <= 1)
      return;
    const PodReading *fresh = nullptr, *old = nullptr;
    for (const auto& pod : running) {
      const PodReading*& kept = is_new(*pod) ? fresh : old;
      if (kept)
        drop(*pod);
      else
        kept = pod.get();
    }
    if (fresh && old && (!old->ready || available(*fresh)))
      drop(*old);
  }

  void drop_ended(const PodReading& pod, const std::string& node) {
    const bool failed = pod.phase == PodReading::Phase::kFailed;
    const WallTime due{pod.created.us + kFailedPause.us};
    if (failed && due > wall_)
      return out_.look_again(instant_of(view_, due));
    wish_event(out_, view_, now_, set_, kDaemonKind, failed ? kWarning : kNormal,
               failed ? "FailedDaemonPod" : "SucceededDaemonPod",
               format("Found {} daemon pod {}/{} on node {}, will try to {} it", failed ? "failed" : "succeeded",
                      set_.meta.ns.get(), pod.object->meta.name, node, failed ? "kill" : "delete"));
    drop(pod);
  }

  void drop(const PodReading& pod) {
    if (!pod.deleting())
      drop_.emplace(pod.object->meta.name, pod.object);
  }

  // --- the way to a new template ---

  // The only new and the only old one on a node; nothing where there are more: manage() clears them first.
  struct Pair {
    const PodReading *fresh = nullptr, *old = nullptr;
  };
  std::optional<Pair> pair_on(const Pods& pods) const {
    Pair pair;
    for (const auto& pod : pods) {
      if (pod->deleting())
        continue;
      const PodReading*& kept = is_new(*pod) ? pair.fresh : pair.old;
      if (kept)
        return std::nullopt;
      kept = pod.get();
    }
    return pair;
  }

  void roll() {
    std::map<std::string, Pods> all = pods_;
    for (const auto& [name, node] : nodes_)
      if (node.runs)
        all[name];
    if (surge_max_ == 0)
      replace(all);
    else
      surge(all);
  }

  void replace(const std::map<std::string, Pods>& all) {
    std::int64_t unavailable = 0;
    std::vector<const PodReading*> candidates;
    for (const auto& [name, pods] : all) {
      const auto pair = pair_on(pods);
      if (!pair || (pair->fresh && pair->old) || (!pair->fresh && !pair->old)) {
        ++unavailable;
      } else if (pair->fresh) {
        unavailable += !available(*pair->fresh);
      } else if (!available(*pair->old)) {
        drop(*pair->old);
        ++unavailable;
      } else {
        candidates.push_back(pair->old);
      }
    }
    for (const PodReading* pod : candidates)
      if (unavailable < unavailable_max_) {
        drop(*pod);
        ++unavailable;
      }
  }

  void surge(const std::map<std::string, Pods>& all) {
    std::int64_t surging = 0, available_now = 0;
    std::vector<std::string> candidates;
    std::vector<const PodReading*> leaving;
    for (const auto& [name, pods] : all) {
      const auto pair = pair_on(pods);
      if (!pair) {
        ++surging;
        continue;
      }
      const PodReading* counted = pair->old ? pair->old : pair->fresh;
      available_now += counted && available(*counted);
      if (!pair->old)
        continue;
      const auto node = nodes_.find(name);
      const bool runs = node != nodes_.end() && node->second.runs;
      if (pair->fresh) {
        if (available(*pair->fresh))
          drop(*pair->old);
        else
          ++surging;
      } else if (!available(*pair->old)) {
        if (runs)
          make_.push_back(name);
        else
          drop(*pair->old);
      } else if (runs) {
        candidates.push_back(name);
      } else {
        leaving.push_back(pair->old);
      }
    }
    for (std::int64_t spare = available_now - wanted_nodes(); spare > 0 && !leaving.empty(); --spare) {
      drop(*leaving.front());
      leaving.erase(leaving.begin());
    }
    for (const std::string& name : candidates)
      if (surging < surge_max_) {
        make_.push_back(name);
        ++surging;
      }
  }

  // --- what is done and told ---

  void act() {
    if (takes_new_objects(view_, set_.meta.ns)) {
      NewPods made(view_, now_, set_, kDaemonKind, out_);
      std::optional<std::string> refused;
      const bool waits = !make_.empty() && made.must_wait(wanted_nodes(), 0, out_);
      for (const std::string& node : make_)
        if (!waits && !refused && !made.full())
          refused = made.add(pod_for(node));
      made.wish(out_);
      if (refused)
        wish_failed_create(out_, view_, now_, set_, kDaemonKind, *refused, {});
    }
    for (const auto& [name, pod] : drop_) wish_pod_gone(out_, view_, now_, set_, kDaemonKind, *pod);
  }

  json::object pod_for(const std::string& node) const {
    json::object pod = pod_from_template(part(part(body_, "spec"), "template"), set_, kDaemonKind);
    json::object& labels = object_in(pod["metadata"].as_object()["labels"]);
    labels[kRevisionHash] = book_.newest_hash;
    if (const std::string number =
            text_in(part(part(body_, "metadata"), "annotations"), "deprecated.daemonset.template.generation");
        !number.empty())
      labels["pod-template-generation"] = number;
    json::object& spec = object_in(pod["spec"]);
    bear_conditions(spec);
    bind_to(spec, node);
    return pod;
  }

  void trim() {
    trim_history(set_, book_, live_, kRevisionHash, whole_in(part(body_, "spec"), "revisionHistoryLimit", 10), out_);
  }

  void tell() {
    const json::object* had = member_object(body_, "status");
    json::object status = had ? *had : json::object();
    std::int64_t current = 0, misplaced = 0, ready = 0, updated = 0, available_now = 0;
    for (const auto& [name, node] : nodes_) {
      const auto there = pods_.find(name);
      if (there == pods_.end())
        continue;
      if (!node.runs) {
        ++misplaced;
        continue;
      }
      const PodReading& pod = *there->second.front();
      ++current;
      ready += pod.ready;
      available_now += available(pod);
      updated += is_new(pod);
      if (pod.ready && !available(pod) && pod.ready_since)
        out_.look_again(instant_of(view_, {pod.ready_since.us + min_ready_.us}));
    }
    const std::int64_t wanted = wanted_nodes();
    status["currentNumberScheduled"] = current;
    status["numberMisscheduled"] = misplaced;
    status["desiredNumberScheduled"] = wanted;
    status["numberReady"] = ready;
    const std::pair<const char*, std::int64_t> others[] = {{"observedGeneration", generation_of(body_)},
                                                           {"updatedNumberScheduled", updated},
                                                           {"numberAvailable", available_now},
                                                           {"numberUnavailable", wanted - available_now}};
    for (const auto& [key, number] : others) {
      if (number != 0)
        status[key] = number;
      else
        status.erase(key);
    }
    if (book_.name_is_taken)
      status["collisionCount"] = whole_in(status, "collisionCount", 0) + 1;
    wish_status(out_, set_, body_of(set_), std::move(status));
  }

  const ObjectView& view_;
  const Instant now_;
  const WallTime wall_;
  const Object& set_;
  Wishes& out_;
  json::object body_;
  Duration min_ready_;
  RevisionBook book_;
  std::map<std::string, Pods> pods_;  // by node, the oldest first
  std::map<std::string, DaemonNode> nodes_;
  std::set<std::string> live_;  // hashes of revisions that pods have
  std::int64_t surge_max_ = 0, unavailable_max_ = 0;
  std::vector<std::string> make_;
  std::map<std::string, Ref<Object>> drop_;
};

class DaemonController final : public Reconciler {
 public:
  std::string_view name() const override { return "daemon sets"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kDaemonKind.type)
      out.push_back(key_of(changed));
    else if (changed.type == kPodType || changed.type == kRevisionType)
      wake_owner(view, changed, kDaemonKind, out);
    else if (changed.type == kNodeObjects)
      wake_all(view, out);
  }
  void woken_by_record(const ObjectView& view, const Change& change, std::vector<ObjectKey>& out) const override {
    if (std::holds_alternative<Ref<Node>>(change.record))
      wake_all(view, out);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    if (const auto set = view.find(kDaemonKind.type, std::get<1>(key), std::get<2>(key)))
      DaemonLook(view, now, *set, out).look();
  }

 private:
  static void wake_all(const ObjectView& view, std::vector<ObjectKey>& out) {
    const std::string type(kDaemonKind.type);
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at)
      out.push_back(at->first);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> daemon_set_controller() { return std::make_shared<DaemonController>(); }

}  // namespace lockstep::kube
