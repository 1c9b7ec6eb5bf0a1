// StatefulSets: pods that keep their names and their volumes, made and updated one after the other.
// Source: kubernetes.io/docs/concepts/workloads/controllers/statefulset.
#include <algorithm>
#include <map>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/controllers/controller_history.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_pod.h"
#include "frontends/kube/controllers/pod_ranks.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kStatefulKind{"statefulsets.apps", "apps/v1", "StatefulSet", "statefulset-controller"};
constexpr std::string_view kClaimType = "persistentvolumeclaims";
constexpr const char* kHashOfRevision = "controller.kubernetes.io/hash";
constexpr const char *kPodName = "statefulset.kubernetes.io/pod-name", *kPodIndex = "apps.kubernetes.io/pod-index";
constexpr Duration kRefusedPause = seconds(1);
constexpr WorkloadKind kPodKind{"pods", "v1", "Pod", ""};

// The number behind the set's name. Nothing: it is no member's name.
std::optional<std::int64_t> ordinal_of(const std::string& set, const std::string& pod) {
  if (pod.size() <= set.size() + 1 || !pod.starts_with(set) || pod[set.size()] != '-')
    return std::nullopt;
  const std::string_view digits = std::string_view(pod).substr(set.size() + 1);
  const auto number = parse_uint(digits);
  if (!number || *number > static_cast<std::uint64_t>(INT32_MAX))
    return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

json::object& members_of(json::value& value) { return value.is_object() ? value.get_object() : value.emplace_object(); }

using Member = std::shared_ptr<const PodReading>;  // null: it is not there yet

class StatefulLook {
 public:
  StatefulLook(const ObjectView& view, Instant now, const Object& set, Wishes& out)
      : view_(view),
        now_(now),
        wall_(wall_time(view, now)),
        set_(set),
        out_(out),
        tree_(whole_tree(set)),
        made_(view, now, set, kStatefulKind, out) {
    const json::value& spec = part(tree_, "spec");
    wanted_ = std::max<std::int64_t>(0, whole_in(spec, "replicas", 1));
    first_ = whole_in(part(spec, "ordinals"), "start", 0);
    min_ready_ = seconds(whole_in(spec, "minReadySeconds", 0));
    ordered_ = text_in(spec, "podManagementPolicy") != "Parallel" && !mutant(Mutant::kOrdinalsAtOnce);
    if (const json::object* had = member_object(tree_, "status"))
      status_ = *had;
  }

  void look() {
    const LabelSelector selector = selector_in(part(tree_, "spec"));
    if (selector.nothing)
      return;
    book_ = keep_history(view_, now_, set_, tree_, kStatefulKind, kHashOfRevision, out_);
    find_revisions();
    find_pods(selector);
    if (!is_deleting(set_) && !book_.name_is_taken && takes_new_objects(view_, set_.meta.ns)) {
      act();
      made_.wish(out_);
      trim();
    }
    tell();
  }

 private:
  // --- what there is ---

  // Members below the partition keep to the template of the revision that was complete last.
  void find_revisions() {
    current_ = text_in(status_, "currentRevision");
    const json::value own = part(part(tree_, "spec"), "template");
    current_template_ = own;
    bool known = false;
    for (const Ref<Object>& revision : book_.all)
      if (revision->meta.name == current_) {
        current_template_ = template_of_revision(*revision);
        known = true;
      }
    if (!known)
      current_ = book_.newest;
    newest_template_ = own;
  }

  void find_pods(const LabelSelector& selector) {
    members_.resize(static_cast<std::size_t>(std::min<std::int64_t>(wanted_, kMembersMax)));
    const auto is_member = [&](const Object& pod) { return ordinal_of(set_.meta.name, pod.meta.name).has_value(); };
    for (const Ref<Object>& pod : claim(view_, set_, kStatefulKind, selector, kPodType, out_, is_member)) {
      const std::int64_t at = *ordinal_of(set_.meta.name, pod->meta.name) - first_;
      const Member reading = view_.pod(pod->meta.ns.get(), pod->meta.name);
      if (at >= 0 && at < static_cast<std::int64_t>(members_.size()))
        members_[static_cast<std::size_t>(at)] = reading;
      else
        condemned_.emplace(at, reading);
    }
  }

  bool available(const PodReading& pod) const { return pod.available(min_ready_, wall_); }
  static bool runs_ready(const PodReading& pod) { return pod.phase == PodReading::Phase::kRunning && pod.ready; }
  bool unavailable(const Member& pod) const { return !pod || !available(*pod) || pod->deleting(); }
  static std::string_view revision_of(const PodReading& pod) { return label_value(*pod.object, kRevisionHash); }

  // --- one after the other ---

  void act() {
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (keep_member(i) && ordered_)
        return;
    keep_claims_of_condemned();
    if (drop_condemned())
      return;
    if (text_in(part(part(tree_, "spec"), "updateStrategy"), "type") != "OnDelete")
      update();
  }

  // Whether the next one is to wait.
  bool keep_member(std::size_t i) {
    const Member& pod = members_[i];
    const std::int64_t ordinal = first_ + static_cast<std::int64_t>(i);
    if (!pod) {
      make(ordinal);
      return true;
    }
    if (pod->ended()) {
      // One that its node refuses is not made again and again without a pause. No clock that went back makes that
      // longer.
      const WallTime due{pod->created.us + kRefusedPause.us};
      if (pod->refused() && due > wall_ && pod->created <= wall_)
        out_.look_again(instant_of(view_, due));
      else
        drop(*pod);
      return true;
    }
    if (pod->phase == PodReading::Phase::kPending)
      make_claims(ordinal);
    if (ordered_ && (pod->deleting() || !runs_ready(*pod) || !available(*pod)))
      return true;
    keep_claims(ordinal, *pod);
    keep_identity(*pod);
    return false;
  }

  // The last first; one that is not ready holds up those below it, unless it is the first that is not.
  bool drop_condemned() {
    const PodReading* first = nullptr;
    for (const Member& pod : members_)
      if (!first && pod && unavailable(pod))
        first = pod.get();
    for (const auto& [at, pod] : condemned_)
      if (!first && unavailable(pod))
        first = pod.get();
    bool any = false;
    for (auto at = condemned_.rbegin(); at != condemned_.rend(); ++at) {
      const PodReading& pod = *at->second;
      any = true;
      if (pod.deleting()) {
        if (ordered_)
          return true;
        continue;
      }
      if (ordered_ && (!runs_ready(pod) || !available(pod)) && &pod != first)
        return true;
      drop(pod);
      if (ordered_)
        return true;
    }
    return any && ordered_;
  }

  void update() {
    const json::value& rolling = part(part(part(tree_, "spec"), "updateStrategy"), "rollingUpdate");
    const std::int64_t least = whole_in(rolling, "partition", 0);
    for (std::int64_t i = static_cast<std::int64_t>(members_.size()) - 1; i >= least; --i) {
      const Member& pod = members_[static_cast<std::size_t>(i)];
      if (pod && revision_of(*pod) != book_.newest && !pod->deleting())
        return drop(*pod);
      if (unavailable(pod))
        return;
    }
  }

  // --- pods ---

  void make(std::int64_t ordinal) {
    if (made_.full())
      return;  // the next look's
    const std::string name = format("{}-{}", set_.meta.name, ordinal);
    if (view_.find(kPodType, set_.meta.ns.get(), name))  // somebody else's, or of a set that was here before
      return cannot_make(name, format("pods {} already exists", quoted(name)));
    if (made_.must_wait(wanted_, 0, out_))
      return;
    const json::value& rolling = part(part(part(tree_, "spec"), "updateStrategy"), "rollingUpdate");
    const bool rolls = text_in(part(part(tree_, "spec"), "updateStrategy"), "type") != "OnDelete";
    const std::int64_t kept =
        rolling.is_object() ? whole_in(rolling, "partition", 0) : whole_in(status_, "currentReplicas", 0);
    const bool current = rolls && ordinal < first_ + kept;
    json::object pod = pod_from_template(current ? current_template_ : newest_template_, set_, kStatefulKind);
    json::object& metadata = pod["metadata"].as_object();
    metadata["name"] = name;
    json::object& labels = members_of(metadata["labels"]);
    labels[kPodName] = name;
    labels[kPodIndex] = std::to_string(ordinal);
    labels[kRevisionHash] = current ? current_ : book_.newest;
    json::object& spec = members_of(pod["spec"]);
    spec["hostname"] = name;
    if (const std::string service = text_in(part(tree_, "spec"), "serviceName"); !service.empty())
      spec["subdomain"] = service;
    put_volumes(spec, ordinal);
    make_claims(ordinal);
    if (const auto refused = made_.add(std::move(pod)))
      cannot_make(name, *refused);
  }

  void cannot_make(const std::string& pod, const std::string& why) {
    wish_failed_create(out_, view_, now_, set_, kStatefulKind,
                       format("create Pod {} in StatefulSet {} failed error: {}", pod, set_.meta.name, why), {});
  }

  void drop(const PodReading& pod) {
    if (!pod.deleting())
      wish_pod_gone(out_, view_, now_, set_, kStatefulKind, *pod.object);
  }

  // A pod that was adopted gets the label that its Service finds it by.
  void keep_identity(const PodReading& pod) {
    const Object& object = *pod.object;
    if (label_value(object, kPodName) == object.meta.name)
      return;
    json::object tree = whole_tree(object);
    json::object& labels = members_of(tree["metadata"].as_object()["labels"]);
    labels[kPodName] = object.meta.name;
    labels[kPodIndex] = std::to_string(*ordinal_of(set_.meta.name, object.meta.name));
    out_.add(PutObject{in_place_of(object, std::move(tree)), object.meta.seq}, resting_on(set_));
  }

  // --- claims ---

  const json::array& claim_templates() const {
    static const json::array none;
    const json::array* all = member_array(part(tree_, "spec"), "volumeClaimTemplates");
    return all ? *all : none;
  }

  std::string claim_name(const json::value& claim_template, std::int64_t ordinal) const {
    return format("{}-{}-{}", text_in(part(claim_template, "metadata"), "name"), set_.meta.name, ordinal);
  }

  void put_volumes(json::object& spec, std::int64_t ordinal) const {
    if (claim_templates().empty())
      return;
    json::array volumes;
    for (const json::value& one : claim_templates()) {
      json::object by_claim;
      by_claim["claimName"] = claim_name(one, ordinal);
      json::object volume;
      volume["name"] = text_in(part(one, "metadata"), "name");
      volume["persistentVolumeClaim"] = std::move(by_claim);
      volumes.push_back(std::move(volume));
    }
    if (const json::array* own = member_array(spec, "volumes"))
      for (const json::value& volume : *own)
        if (std::ranges::none_of(claim_templates(), [&](const json::value& one) {
              return text_in(part(one, "metadata"), "name") == text_in(volume, "name");
            }))
          volumes.push_back(volume);
    spec["volumes"] = std::move(volumes);
  }

  void make_claims(std::int64_t ordinal) {
    for (const json::value& one : claim_templates()) {
      const std::string name = claim_name(one, ordinal);
      if (view_.find(kClaimType, set_.meta.ns.get(), name))
        continue;
      json::object tree;
      const json::value& wanted = part(one, "metadata");
      json::object metadata{{"name", name}, {"namespace", set_.meta.ns.get()}};
      for (const char* key : {"labels", "annotations"})
        if (const json::value* value = member(wanted, key))
          metadata[key] = *value;
      if (const json::object* own = member_object(part(part(tree_, "spec"), "selector"), "matchLabels"))
        for (const auto& [key, value] : *own) members_of(metadata["labels"])[key] = value;
      if (keeps_when("whenDeleted") == Keeps::kDeletes)
        metadata["ownerReferences"] = json::array{reference_to(set_, kStatefulKind)};
      tree["metadata"] = std::move(metadata);
      tree["spec"] = part(one, "spec");
      if (const Schema* schema = builtin_kind_schema("", "v1", "PersistentVolumeClaim"))
        fill_defaults(tree, *schema, wall_);
      rules_of(kClaimType).prepare_create(tree);
      wish_new(out_, view_, now_, kClaimType, std::move(tree));
      wish_event(
          out_, view_, now_, set_, kStatefulKind, kNormal, "SuccessfulCreate",
          format("create Claim {} Pod {}-{} in StatefulSet {} success", name, set_.meta.name, ordinal, set_.meta.name));
    }
  }

  enum class Keeps : bool { kRetains, kDeletes };
  Keeps keeps_when(const char* when) const {
    const json::value& policy = part(part(tree_, "spec"), "persistentVolumeClaimRetentionPolicy");
    return text_in(policy, when) == "Delete" ? Keeps::kDeletes : Keeps::kRetains;
  }

  // A claim belongs to the set, where it goes with it; to the pod, where that goes because the set is smaller.
  void keep_claims(std::int64_t ordinal, const PodReading& pod) {
    const bool condemned = ordinal < first_ || ordinal >= first_ + wanted_;
    const bool of_pod = condemned && keeps_when("whenScaled") == Keeps::kDeletes;
    const bool of_set = !of_pod && keeps_when("whenDeleted") == Keeps::kDeletes;
    for (const json::value& one : claim_templates()) {
      const auto claim = view_.find(kClaimType, set_.meta.ns.get(), claim_name(one, ordinal));
      if (!claim || is_deleting(*claim))
        continue;
      json::array others, wanted;
      json::object tree = whole_tree(*claim);
      if (const json::array* had = member_array(part(tree, "metadata"), "ownerReferences"))
        for (const json::value& owner : *had)
          if (const std::string uid = text_in(owner, "uid");
              uid != uid_text(set_.meta.uid) && uid != uid_text(pod.object->meta.uid))
            others.push_back(owner);
      if (std::ranges::any_of(others, [](const json::value& owner) { return truth_in(owner, "controller"); }))
        continue;  // somebody else sees to it
      wanted = others;
      if (of_pod)
        wanted.push_back(reference_to(*pod.object, kPodKind));
      if (of_set)
        wanted.push_back(reference_to(set_, kStatefulKind));
      json::object& metadata = tree["metadata"].as_object();
      const json::array* had = member_array(metadata, "ownerReferences");
      if (had ? same_json(*had, wanted) : wanted.empty())
        continue;
      if (wanted.empty())
        metadata.erase("ownerReferences");
      else
        metadata["ownerReferences"] = std::move(wanted);
      out_.add(PutObject{in_place_of(*claim, std::move(tree)), claim->meta.seq}, resting_on(set_));
    }
  }

  void keep_claims_of_condemned() {
    for (const auto& [at, pod] : condemned_) keep_claims(first_ + at, *pod);
  }

  // --- what is told ---

  void trim() {
    std::set<std::string> live{current_, book_.newest};
    for (const Member& pod : members_)
      if (pod)
        live.insert(std::string(revision_of(*pod)));
    for (const auto& [at, pod] : condemned_) live.insert(std::string(revision_of(*pod)));
    trim_history(set_, book_, live, kHashOfRevision, whole_in(part(tree_, "spec"), "revisionHistoryLimit", 10), out_);
  }

  void tell() {
    std::int64_t replicas = 0, ready = 0, available_now = 0, current = 0, updated = 0;
    const auto count = [&](const PodReading& pod) {
      ++replicas;
      ready += runs_ready(pod);
      available_now += runs_ready(pod) && available(pod);
      if (runs_ready(pod) && !available(pod) && pod.ready_since)
        out_.look_again(instant_of(view_, {pod.ready_since.us + min_ready_.us}));
      if (pod.deleting())
        return;
      current += revision_of(pod) == current_;
      updated += revision_of(pod) == book_.newest;
    };
    for (const Member& pod : members_)
      if (pod)
        count(*pod);
    for (const auto& [at, pod] : condemned_) count(*pod);
    std::string complete = current_;
    if (text_in(part(part(tree_, "spec"), "updateStrategy"), "type") != "OnDelete" && updated == wanted_ &&
        ready == wanted_ && replicas == wanted_) {
      complete = book_.newest;
      current = updated;
    }
    status_["replicas"] = replicas;
    status_["availableReplicas"] = available_now;
    const std::pair<const char*, std::int64_t> others[] = {{"observedGeneration", generation_of(tree_)},
                                                           {"readyReplicas", ready},
                                                           {"currentReplicas", current},
                                                           {"updatedReplicas", updated}};
    for (const auto& [key, number] : others) {
      if (number != 0)
        status_[key] = number;
      else
        status_.erase(key);
    }
    status_["currentRevision"] = complete;
    status_["updateRevision"] = book_.newest;
    status_["collisionCount"] = whole_in(status_, "collisionCount", 0) + book_.name_is_taken;
    wish_status(out_, set_, body_of(set_), std::move(status_));
  }

  static constexpr std::int64_t kMembersMax = 100'000;

  const ObjectView& view_;
  const Instant now_;
  const WallTime wall_;
  const Object& set_;
  Wishes& out_;
  json::object tree_, status_;
  NewPods made_;
  std::int64_t wanted_ = 1, first_ = 0;
  Duration min_ready_;
  bool ordered_ = true;
  RevisionBook book_;
  std::string current_;  // the revision that was complete last
  json::value current_template_, newest_template_;
  std::vector<Member> members_;               // by ordinal, from the first on
  std::map<std::int64_t, Member> condemned_;  // those beyond, likewise: their place behind the first
};

class StatefulController final : public Reconciler {
 public:
  std::string_view name() const override { return "stateful sets"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kStatefulKind.type)
      out.push_back(key_of(changed));
    else if (changed.type == kPodType || changed.type == kRevisionType)
      wake_owner(view, changed, kStatefulKind, out);
    if (changed.type == kPodType)
      wake_namesake(view, changed, out);
    else if (changed.type == kClaimType)
      wake_user(view, changed, out);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    if (const auto set = view.find(kStatefulKind.type, std::get<1>(key), std::get<2>(key)))
      StatefulLook(view, now, *set, out).look();
  }

 private:
  // Whoever has it: "web-0" takes the name of a member of the set "web", and gives it back.
  static void wake_namesake(const ObjectView& view, const Object& pod, std::vector<ObjectKey>& out) {
    const std::size_t end = pod.meta.name.rfind('-');
    if (end == std::string::npos || !ordinal_of(pod.meta.name.substr(0, end), pod.meta.name))
      return;
    if (const auto set = view.find(kStatefulKind.type, pod.meta.ns.get(), pod.meta.name.substr(0, end)))
      out.push_back(key_of(*set));
  }

  // "data-web-0": of the set "web", if there is one.
  static void wake_user(const ObjectView& view, const Object& claim, std::vector<ObjectKey>& out) {
    const std::string& name = claim.meta.name;
    const std::size_t end = name.rfind('-');
    for (std::size_t from = 0; end != std::string::npos && (from = name.find('-', from)) < end; ++from)
      if (const auto set = view.find(kStatefulKind.type, claim.meta.ns.get(), name.substr(from + 1, end - from - 1)))
        out.push_back(key_of(*set));
  }
};

}  // namespace

std::shared_ptr<const Reconciler> stateful_set_controller() { return std::make_shared<StatefulController>(); }

}  // namespace lockstep::kube
