// Deployments: one ReplicaSet for each template that they had, and the way from the old ones to the new.
// Source: kubernetes.io/docs/concepts/workloads/controllers/deployment.
#include <algorithm>
#include <list>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/deployment_sets.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kDeploymentKind{"deployments.apps", "apps/v1", "Deployment", "deployment-controller"};
constexpr std::string_view kSetType = "replicasets.apps";
constexpr std::size_t kSetNameMax = 253;
constexpr const char *kProgressing = "Progressing", *kAvailableCondition = "Available", *kFailure = "ReplicaFailure";
constexpr const char *kSetAvailable = "NewReplicaSetAvailable", *kTimedOut = "ProgressDeadlineExceeded",
                     *kPausedReason = "DeploymentPaused";

// One look at a Deployment.
class Rollout {
 public:
  Rollout(const ObjectView& view, Instant now, Ref<Object> deployment, Wishes& out)
      : view_(view), now_(now), object_(std::move(deployment)), out_(out), tree_(whole_tree(*object_)) {
    plan_ = rollout_plan(tree_);
    if (const json::object* had = member_object(tree_, "status"))
      status_ = *had;
    before_ = status_;
  }

  void look() {
    const json::value& spec = part(tree_, "spec");
    const LabelSelector selector = selector_in(spec);
    if (selector.nothing) {
      wish_event(out_, view_, now_, *object_, kDeploymentKind, kWarning, "SelectingAll",
                 "This deployment is selecting all pods. A non-empty selector is required.");
      status_["observedGeneration"] = generation_of(tree_);
      return write();
    }
    for (const Ref<Object>& set :
         claim(view_, *object_, kDeploymentKind, selector, kSetType, out_, [](const Object&) { return true; }))
      sets_.push_back(rollout_set(set));
    sort_out();
    if (is_deleting(*object_)) {
      tell_numbers();
      return write_status_only();
    }
    tell_pause();
    if (newest_)
      keep_newest();
    if (plan_.paused || was_resized()) {
      scale();
      if (plan_.paused)
        clean_up();
      tell_numbers();
    } else if (plan_.recreates) {
      recreate();
    } else {
      roll();
    }
    write();
  }

 private:
  std::string time() const { return time_text(now_, view_.wall_offset()); }

  // The set of the template as it is now: the oldest, if several have it.
  void sort_out() {
    Sets all;
    for (RolloutSet& set : sets_) all.push_back(&set);
    oldest_first(all);
    const json::value& wanted = part(part(tree_, "spec"), "template");
    for (RolloutSet* set : all)
      if (!newest_ && same_template(part(part(set->tree, "spec"), "template"), wanted))
        newest_ = set;
      else
        old_.push_back(set);
  }

  Sets all_sets() const {
    Sets all = old_;
    all.push_back(newest_);
    return all;
  }

  std::int64_t next_revision() const {
    std::int64_t most = 0;
    for (const RolloutSet* set : old_) most = std::max(most, set->revision());
    return most + 1;
  }

  void keep_newest() {
    mark_newest(*newest_, tree_, next_revision(), plan_);
    note_revision();
    if (plan_.deadline_seconds && !find_condition(status_, kProgressing))
      tell(kProgressing, "True", "FoundNewReplicaSet", format("Found new replica set {}", quoted(newest_->name())));
  }

  void note_revision() {
    json::object& metadata = tree_["metadata"].as_object();
    json::value& annotations = metadata["annotations"];
    json::object& all = annotations.is_object() ? annotations.get_object() : annotations.emplace_object();
    const std::string revision = newest_->annotation(kRevision);
    if (text_in(all, kRevision) == revision)
      return;
    all[kRevision] = revision;
    marked_ = true;
  }

  bool refuse_newest() {
    const std::string why = format("Failed to create new replica set: replicasets.apps is forbidden: {}", out_.full);
    tell(kProgressing, "False", "ReplicaSetCreateError", why);
    wish_event(out_, view_, now_, *object_, kDeploymentKind, kWarning, "ReplicaSetCreateError", why);
    return false;
  }

  // False: the name is another's; next time it is another name. Or there is no room for it.
  bool make_newest() {
    if (!takes_new_objects(view_, object_->meta.ns))
      return false;
    if (!out_.full.empty())
      return refuse_newest();
    json::value pod_template = part(part(tree_, "spec"), "template");
    const std::int64_t collisions = whole_in(status_, "collisionCount", 0);
    const std::string hash = safe_letters(hash_of(std::to_string(collisions), hash_of_tree(pod_template)), 10);
    std::string base = object_->meta.name;
    base.resize(std::min(base.size(), kSetNameMax - 1 - hash.size()));
    const std::string name = base + "-" + hash;
    if (view_.find(kSetType, object_->meta.ns.get(), name)) {
      status_["collisionCount"] = collisions + 1;
      return false;
    }
    json::object& metadata = pod_template.as_object()["metadata"].is_object()
                                 ? pod_template.as_object()["metadata"].get_object()
                                 : pod_template.as_object()["metadata"].emplace_object();
    json::value& labels = metadata["labels"];
    (labels.is_object() ? labels.get_object() : labels.emplace_object())[kTemplateHash] = hash;
    json::value selector = part(part(tree_, "spec"), "selector");
    json::value& match = selector.as_object()["matchLabels"];
    (match.is_object() ? match.get_object() : match.emplace_object())[kTemplateHash] = hash;
    RolloutSet set;
    set.tree["metadata"] = json::object{{"name", name},
                                        {"namespace", object_->meta.ns.get()},
                                        {"labels", labels},
                                        {"generation", 1},
                                        {"ownerReferences", json::array{reference_to(*object_, kDeploymentKind)}}};
    json::object spec{{"replicas", 0}};
    if (plan_.min_ready != 0)
      spec["minReadySeconds"] = plan_.min_ready;
    spec["selector"] = std::move(selector);
    spec["template"] = std::move(pod_template);
    set.tree["spec"] = std::move(spec);
    set.tree["status"] = json::object{{"replicas", 0}};
    set.created = wall_time(view_, now_);
    sets_.push_back(std::move(set));
    newest_ = &sets_.back();
    resize(*newest_, plan_.recreates ? plan_.wanted : room_for_newest());
    mark_newest(*newest_, tree_, next_revision(), plan_);
    note_revision();
    if (plan_.deadline_seconds)
      tell(kProgressing, "True", "NewReplicaSetCreated", format("Created new replica set {}", quoted(name)));
    return true;
  }

  std::int64_t room_for_newest() const {
    const std::int64_t have = sizes_of(all_sets());
    if (have >= plan_.most())
      return newest_->size;
    return newest_->size + std::min(plan_.most() - have, plan_.wanted - newest_->size);
  }

  // Whether it was another number.
  bool resize(RolloutSet& set, std::int64_t size) {
    if (set.size == size)
      return false;
    events_.push_back(
        format("Scaled {} replica set {} from {} to {}", set.size < size ? "up" : "down", set.name(), set.size, size));
    set.resize(size);
    mark_sizes(set, plan_);
    return true;
  }

  // --- a Deployment that was resized, or stands still ---

  bool was_resized() const {
    for (const RolloutSet* set : active_of(all_sets())) {
      const auto desired = parse_uint(set->annotation(kDesiredReplicas));
      if (desired && *desired <= static_cast<std::uint64_t>(INT32_MAX) &&
          static_cast<std::int64_t>(*desired) != plan_.wanted)
        return true;
    }
    return false;
  }

  bool saturated() const {
    return newest_ && newest_->size == plan_.wanted && newest_->available == plan_.wanted &&
           newest_->annotation(kDesiredReplicas) == std::to_string(plan_.wanted);
  }

  void scale() {
    if (RolloutSet* only = only_active(newest_, old_)) {
      resize(*only, plan_.wanted);
      mark_sizes(*only, plan_);
    } else if (saturated()) {
      for (RolloutSet* old : active_of(old_)) resize(*old, 0);
    } else if (!plan_.recreates) {
      scale_in_proportion(plan_, all_sets());
    }
  }

  // --- the ways to a new template ---

  void roll() {
    if (!newest_ && !make_newest())
      return tell_numbers();
    const std::int64_t size = newest_->size > plan_.wanted ? plan_.wanted : room_for_newest();
    if (newest_->object ? resize(*newest_, size) : false)
      return tell_progress();
    if (newest_->object && scale_down_old())
      return tell_progress();
    if (is_complete(before_))
      clean_up();
    tell_progress();
  }

  bool scale_down_old() {
    Sets old = active_of(old_);
    if (old.empty())
      return false;
    std::int64_t may_go = sizes_of(all_sets()) - plan_.least_available() - (newest_->size - newest_->available);
    if (may_go <= 0)
      return false;
    oldest_first(old);
    bool any = false;
    for (RolloutSet* set : old) {  // those that are not available are missed by nobody
      const std::int64_t going = std::min(may_go, set->size - set->available);
      if (going > 0)
        any |= resize(*set, set->size - going);
      may_go -= std::max<std::int64_t>(0, going);
    }
    Sets counted = old;
    counted.push_back(newest_);
    std::int64_t spare = available_of(counted) - plan_.least_available();
    for (RolloutSet* set : old) {
      const std::int64_t going = std::min(set->size, spare);
      if (going > 0)
        any |= resize(*set, set->size - going);
      spare -= std::max<std::int64_t>(0, going);
    }
    return any;
  }

  void recreate() {
    bool any = false;
    for (RolloutSet* set : active_of(old_)) any |= resize(*set, 0);
    if (any || old_pods_are_there())
      return tell_progress();
    if (!newest_ && !make_newest())
      return tell_numbers();
    resize(*newest_, plan_.wanted);
    if (is_complete(before_))
      clean_up();
    tell_progress();
  }

  bool old_pods_are_there() const {
    if (replicas_of(old_) > 0)
      return true;
    for (const RolloutSet* set : old_)
      for (const ObjectKey& key : view_.dependents(set->object->meta.uid))
        if (std::get<0>(key) == kPodType)
          if (const auto pod = view_.pod(std::get<1>(key), std::get<2>(key)); pod && !pod->ended())
            return true;
    return false;
  }

  void clean_up() {
    if (!plan_.history_limit)
      return;
    Sets sets;
    for (RolloutSet* set : old_)
      if (!is_deleting(*set->object))
        sets.push_back(set);
    by_revision(sets);
    const std::int64_t too_many = static_cast<std::int64_t>(sets.size()) - *plan_.history_limit;
    for (std::int64_t i = 0; i < too_many; ++i) {
      const RolloutSet& set = *sets[static_cast<std::size_t>(i)];
      if (set.replicas == 0 && set.size == 0 && generation_of(set.tree) <= set.seen)
        out_.add(RemoveObject{std::string(kSetType), set.object->meta.ns, set.object->meta.name, set.object->meta.seq},
                 resting());
    }
  }

  // --- what is told ---

  void tell(const char* type, const char* status, const char* reason, const std::string& message) {
    json::object told{
        {"type", type},     {"status", status},  {"lastUpdateTime", time()}, {"lastTransitionTime", time()},
        {"reason", reason}, {"message", message}};
    if (const json::value* had = find_condition(status_, type)) {
      if (text_in(*had, "status") == status && text_in(*had, "reason") == reason)
        return;
      if (text_in(*had, "status") == status)
        told["lastTransitionTime"] = part(*had, "lastTransitionTime");
    }
    add_condition(status_, std::move(told));
  }

  void tell_pause() {
    if (!plan_.deadline_seconds)
      return;
    const json::value* had = find_condition(status_, kProgressing);
    const std::string reason = had ? text_in(*had, "reason") : "";
    if (reason == kTimedOut)
      return;
    if (plan_.paused && reason != kPausedReason)
      tell(kProgressing, "Unknown", kPausedReason, "Deployment is paused");
    else if (!plan_.paused && reason == kPausedReason)
      tell(kProgressing, "Unknown", "DeploymentResumed", "Deployment is resumed");
  }

  void tell_numbers() {
    const Sets all = all_sets();
    std::int64_t ready = 0;
    for (const RolloutSet* set : all) ready += set ? set->ready : 0;
    const std::int64_t available = available_of(all);
    const std::pair<const char*, std::int64_t> numbers[] = {
        {"observedGeneration", generation_of(tree_)},
        {"replicas", replicas_of(all)},
        {"updatedReplicas", newest_ ? newest_->replicas : 0},
        {"readyReplicas", ready},
        {"availableReplicas", available},
        {"unavailableReplicas", std::max<std::int64_t>(0, sizes_of(all) - available)}};
    for (const auto& [key, number] : numbers) {
      if (number != 0)
        status_[key] = number;
      else
        status_.erase(key);
    }
    if (available >= plan_.least_available())
      tell(kAvailableCondition, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.");
    else
      tell(kAvailableCondition, "False", "MinimumReplicasUnavailable",
           "Deployment does not have minimum availability.");
  }

  std::int64_t told(const json::object& status, const char* key) const { return whole_in(status, key, 0); }

  bool is_complete(const json::object& status) const {
    return told(status, "updatedReplicas") == plan_.wanted && told(status, "replicas") == plan_.wanted &&
           told(status, "availableReplicas") == plan_.wanted &&
           told(status, "observedGeneration") >= generation_of(tree_);
  }

  bool went_on() const {
    const auto old = [&](const json::object& status) {
      return told(status, "replicas") - told(status, "updatedReplicas");
    };
    return told(status_, "updatedReplicas") > told(before_, "updatedReplicas") || old(status_) < old(before_) ||
           told(status_, "readyReplicas") > told(before_, "readyReplicas") ||
           told(status_, "availableReplicas") > told(before_, "availableReplicas");
  }

  void tell_progress() {
    tell_numbers();
    const std::string who = newest_ ? format("ReplicaSet {}", quoted(newest_->name()))
                                    : format("Deployment {}", quoted(object_->meta.name));
    const json::value* at = find_condition(status_, kProgressing);
    const json::value had = at ? *at : json::value();
    if (!plan_.deadline_seconds)
      drop_condition(status_, kProgressing);
    const bool was_done =
        told(status_, "replicas") == told(status_, "updatedReplicas") && text_in(had, "reason") == kSetAvailable;
    if (plan_.deadline_seconds && !was_done) {
      if (is_complete(status_)) {
        tell(kProgressing, "True", kSetAvailable, who + " has successfully progressed.");
      } else if (went_on()) {
        drop_condition(status_, kProgressing);  // told anew, so that its time moves on
        tell(kProgressing, "True", "ReplicaSetUpdated", who + " is progressing.");
        if (text_in(had, "status") == "True")
          status_["conditions"].as_array().back().as_object()["lastTransitionTime"] = part(had, "lastTransitionTime");
      } else if (timed_out(had)) {
        tell(kProgressing, "False", kTimedOut, who + " has timed out progressing.");
      }
    }
    tell_failures();
    look_at_deadline();
  }

  // When the deadline passes, if nothing goes on before. 0: there is none to wait for.
  WallTime deadline(const json::value& progressing) const {
    const auto since = parse_timestamp(text_in(progressing, "lastUpdateTime"));
    const std::string reason = text_in(progressing, "reason");
    if (!plan_.deadline_seconds || !since || reason == kSetAvailable || reason == kTimedOut)
      return {};
    return {since->us + seconds(*plan_.deadline_seconds).us};
  }

  bool timed_out(const json::value& progressing) const {
    if (text_in(progressing, "reason") == kTimedOut)
      return true;
    const WallTime when = deadline(progressing);
    return when && when < wall_time(view_, now_);
  }

  void look_at_deadline() {
    const json::value* progressing = find_condition(status_, kProgressing);
    const WallTime when = progressing ? deadline(*progressing) : WallTime{};
    if (when && !is_complete(status_))
      out_.look_again(std::max(now_, instant_of(view_, when)) + seconds(1));
  }

  void tell_failures() {
    Sets all{newest_};
    all.insert(all.end(), old_.begin(), old_.end());
    for (const RolloutSet* set : all)
      if (const json::object* status = set ? member_object(set->tree, "status") : nullptr)
        if (const json::value* failure = find_condition(*status, kFailure)) {
          json::object told = failure->as_object();
          const json::value* had = find_condition(status_, kFailure);
          if (had && text_in(*had, "status") == text_in(told, "status") &&
              text_in(*had, "reason") == text_in(told, "reason"))
            return;
          told["lastUpdateTime"] = part(*failure, "lastTransitionTime");
          return add_condition(status_, std::move(told));
        }
    drop_condition(status_, kFailure);
  }

  // --- what is written ---

  Reading resting() const { return resting_on(*object_); }

  void write() {
    for (RolloutSet& set : sets_) {
      if (!set.object) {
        json::object& metadata = set.tree["metadata"].as_object();
        metadata["creationTimestamp"] = time();
        Object made = object_of(kSetType, std::move(set.tree));
        Reading read = resting();
        add_new(read, view_, made);
        out_.add(PutObject{std::move(made), 0}, std::move(read));
      } else if (set.changed) {
        if (set.asks_otherwise)
          set.tree["metadata"].as_object()["generation"] = generation_of(set.tree) + 1;
        out_.add(PutObject{in_place_of(*set.object, std::move(set.tree)), set.object->meta.seq}, resting());
      }
    }
    for (const std::string& event : events_)
      wish_event(out_, view_, now_, *object_, kDeploymentKind, kNormal, "ScalingReplicaSet", event);
    write_status_only();
  }

  void write_status_only() {
    if (!marked_ && same_json(before_, status_))
      return;
    tree_["status"] = std::move(status_);
    out_.add(PutObject{in_place_of(*object_, std::move(tree_)), object_->meta.seq});
  }

  const ObjectView& view_;
  const Instant now_;
  const Ref<Object> object_;
  Wishes& out_;
  json::object tree_, status_, before_;
  RolloutPlan plan_;
  std::list<RolloutSet> sets_;
  RolloutSet* newest_ = nullptr;  // of the template as it is now. Null: there is none yet
  Sets old_;
  std::vector<std::string> events_;
  bool marked_ = false;  // the Deployment's annotations were changed
};

class DeploymentController final : public Reconciler {
 public:
  std::string_view name() const override { return "deployments"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kDeploymentKind.type)
      out.push_back(key_of(changed));
    else if (changed.type == kSetType)
      wake_owner(view, changed, kDeploymentKind, out);
    else if (changed.type == kPodType)
      wake_at_end(view, changed, out);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    if (const auto deployment = view.find(kDeploymentKind.type, std::get<1>(key), std::get<2>(key)))
      Rollout(view, now, deployment, out).look();
  }

 private:
  // One that recreates waits for the last old pod.
  static void wake_at_end(const ObjectView& view, const Object& pod, std::vector<ObjectKey>& out) {
    const OwnerRef* ref = controller_ref(pod);
    const auto set = ref ? view.find(kSetType, pod.meta.ns.get(), ref->name) : nullptr;
    if (!set || set->meta.uid != ref->uid)
      return;
    const auto now = view.pod(pod.meta.ns.get(), pod.meta.name);
    if (!now || now->ended())
      wake_owner(view, *set, kDeploymentKind, out);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> deployment_controller() { return std::make_shared<DeploymentController>(); }

}  // namespace lockstep::kube
