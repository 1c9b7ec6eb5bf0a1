#include "frontends/kube/controllers/new_pod.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/admission/made_pods.h"
#include "frontends/kube/admission/webhooks.h"
#include "frontends/kube/controllers/pod_admission.h"
#include "frontends/kube/controllers/pod_defaults.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/kinds/rules.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/defaulting.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kPodsTogether = 32;  // in one command: each with its job, its task and an event
constexpr std::size_t kPodsAtOnce = 512;   // wished in one look
constexpr std::size_t kPodsAsked = 16;     // wait for webhooks
constexpr std::size_t kNameBaseMax = 58;   // of a generated name, as the API server cuts it
constexpr std::string_view kMaker = "system:kube-controller-manager";  // as policies see it
constexpr Duration kRetryFirst = seconds(1), kRetryMost = minutes(1);
// Pods that an owner makes of late without a pause: some, and twice as many as it is to have.
constexpr std::int64_t kMadeFreely = 10, kRoundsFreely = 2;
constexpr Duration kBrakeFirst = seconds(1), kBrakeMost = minutes(1);

std::optional<std::string> complete(const ObjectView& view, Instant now, json::object& tree) {
  if (const Schema* schema = builtin_kind_schema("", "v1", "Pod"))
    fill_defaults(tree, *schema, wall_time(view, now));
  if (auto refused = default_pod(view.tables(), tree))
    return refused->message;
  if (auto refused = complete_pod(view.tables(), tree))
    return refused->message;
  return std::nullopt;
}

std::optional<std::string> check(const ObjectView& view, const json::object& tree) {
  FieldErrors errors;
  rules_of(kPodType).validate(tree, nullptr, errors);
  if (!errors.empty())
    return format("Pod {} is invalid: {}", quoted(text_in(part(tree, "metadata"), "name")), joined_text(errors));
  if (auto refused = judge_made_pod(view.tables(), tree, kMaker))
    return refused->message;
  return std::nullopt;
}

// As webhooks see it: those of one template are alike.
json::object as_asked_about(const json::object& tree, bool has_own_name) {
  json::object out = tree;
  json::object& metadata = out["metadata"].as_object();
  if (!has_own_name)
    metadata.erase("name");
  metadata.erase("creationTimestamp");
  return out;
}

// The pod as webhooks have made it is still the one that was asked for.
json::object with_own_name(json::object changed, const json::object& tree) {
  json::value& value = changed["metadata"];
  json::object& metadata = value.is_object() ? value.get_object() : value.emplace_object();
  for (const char* own : {"name", "namespace", "generateName", "creationTimestamp", "ownerReferences"}) {
    if (const json::value* was = member(part(tree, "metadata"), own))
      metadata[own] = *was;
    else
      metadata.erase(own);
  }
  return changed;
}

json::object labels_in(const json::object& pod) {
  const json::object* labels = member_object(part(pod, "metadata"), "labels");
  return labels ? *labels : json::object();
}

// By which the owner knows its pods: what does not fit is no pod of its, and it would make others without end.
LabelSelector selector_of(const Object& owner, const WorkloadKind& kind) {
  const json::object body = body_of(owner);
  const json::value& spec = part(body, "spec");
  if (kind.kind != "ReplicationController")
    return selector_in(spec);
  const json::object* labels = member_object(spec, "selector");
  return labels ? select_labels(*labels) : LabelSelector{{}, true};
}

// Of an event about a pod that was made, or deleted.
std::string words(const WorkloadKind& kind, const Object& owner, bool made, const std::string& pod) {
  if (kind.kind == "StatefulSet")
    return format("{} Pod {} in StatefulSet {} successful", made ? "create" : "delete", pod, owner.meta.name);
  return (made ? "Created pod: " : "Deleted pod: ") + pod;
}

}  // namespace

json::object pod_from_template(const json::value& pod_template, const Object& owner, const WorkloadKind& kind) {
  json::object metadata;
  const json::value& wanted = part(pod_template, "metadata");
  for (const char* key : {"labels", "annotations", "finalizers"})
    if (const json::value* value = member(wanted, key))
      metadata[key] = *value;
  const std::string prefix = owner.meta.name + "-";
  metadata["generateName"] = dns_subdomain_faults(owner.meta.name + "-a").empty() ? prefix : owner.meta.name;
  metadata["namespace"] = owner.meta.ns.get();
  metadata["ownerReferences"] = json::array{reference_to(owner, kind)};
  json::object tree;
  tree["metadata"] = std::move(metadata);
  tree["spec"] = part(pod_template, "spec");
  tree["status"] = json::object{{"phase", "Pending"}};
  return tree;
}

NewPods::NewPods(const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind, const Wishes& told)
    : view_(view),
      now_(now),
      owner_(owner),
      kind_(kind),
      refused_(told.refused),
      no_room_(told.full),
      ledger_(view.tables(), owner.meta.ns) {}

// One that is free in the view. Whoever reads the same version of the owner tries the same names in the same order.
std::string NewPods::name_for(const json::object& metadata) {
  const std::string base = text_in(metadata, "generateName").substr(0, kNameBaseMax);
  for (;;) {
    const std::uint64_t which = owner_.meta.seq * 1'000'003 + tried_++;
    std::string name = base + safe_letters(hash_of(format("{}/{}", owner_.meta.uid.value, which)) >> 8, 5);
    if (!names_.contains(name) && !view_.find(kPodType, owner_.meta.ns.get(), name))
      return name;
  }
}

std::optional<std::string> NewPods::add(json::object tree) {
  if (!no_room_.empty())
    return format("pods is forbidden: {}", no_room_);
  json::object& metadata = tree["metadata"].as_object();
  const bool has_own_name = !text_in(metadata, "name").empty();
  // What makes pods alike is what their template says: what is filled in goes by their names.
  const bool asks = view_.admission() && has_webhooks(view_.tables());
  const std::string alike = asks ? format("{}/{:016x}", owner_.meta.uid.value, hash_of_tree(tree)) : "";
  if (!has_own_name)
    metadata["name"] = name_for(metadata);
  const std::string name = text_in(metadata, "name");
  tree["metadata"].as_object()["creationTimestamp"] = time_text(now_, view_.wall_offset());
  tree["metadata"].as_object()["generation"] = 1;
  if (auto refused = complete(view_, now_, tree))
    return refused;
  rules_of(kPodType).prepare_create(tree);
  std::string refusal;
  if (const Door door = pass_webhooks(tree, has_own_name, alike, refusal); door != Door::kOpen)
    return door == Door::kShut ? std::optional(refusal) : std::nullopt;
  if (auto refused = check(view_, tree))
    return refused;
  if (auto refused = ledger_.count(kPodType, tree))
    return format("pods {} is forbidden: {}", quoted(name), *refused);
  auto work =
      refused_.empty()
          ? pod_work(view_.tables(), now_, tree)
          : Result<PodWork>(PodWork{pod_without_work(view_.tables(), now_, std::move(tree), refused_), refused_});
  if (!work.ok())
    return format("Pod {} is invalid: {}: {}", quoted(name), work.error().field, work.error().message);
  names_.insert(name);
  ++made_;
  pods_.push_back({name, std::move(work->body)});
  return std::nullopt;
}

// Webhooks change it, or refuse it.
NewPods::Door NewPods::pass_webhooks(json::object& tree, bool has_own_name, const std::string& alike,
                                     std::string& refusal) {
  if (alike.empty())
    return Door::kOpen;
  const json::object pod = as_asked_about(tree, has_own_name);
  if (!is_asked_about(view_.tables(), attempt_of_made_pod(pod, kMaker)))
    return Door::kOpen;
  std::size_t& waiting = asked_[alike];
  PodAdmission::Told told = view_.admission()->take({owner_.meta.ns, alike, pod, waiting}, now_);
  if (!told.verdict) {
    patience_ = waiting_ == 0 ? told.again : std::min(patience_, told.again);
    ++waiting;
    ++waiting_;
    return Door::kAsked;
  }
  if (told.verdict->refused) {
    refusal = told.verdict->refused->message;
    return Door::kShut;
  }
  if (!told.verdict->changed)
    return Door::kOpen;
  json::object changed = with_own_name(std::move(*told.verdict->changed), tree);
  const LabelSelector knows = selector_of(owner_, kind_);
  if (knows.matches(labels_in(tree)) && !knows.matches(labels_in(changed))) {
    refusal =
        format("webhooks have changed the labels by which {} {} knows its pods", kind_.kind, quoted(owner_.meta.name));
    return Door::kShut;
  }
  tree = std::move(changed);
  if (auto refused = complete(view_, now_, tree)) {
    refusal = *refused;
    return Door::kShut;
  }
  rules_of(kPodType).prepare_create(tree);
  return Door::kOpen;
}

// The pause doubles each time that all of its pods have been made over again.
bool NewPods::must_wait(std::int64_t wanted, std::int64_t done, Wishes& out) const {
  const ObjectView::Made made = view_.made_of_late(owner_.meta.uid, now_);
  wanted = std::max<std::int64_t>(1, wanted);
  const std::int64_t beyond = made.count - done - kMadeFreely - kRoundsFreely * wanted;
  if (beyond < 0)
    return false;
  constexpr std::int64_t kDoublings = 6;
  const Instant due =
      made.last + std::min(kBrakeMost, Duration{kBrakeFirst.us << std::min(beyond / wanted, kDoublings)});
  if (due <= now_)
    return false;
  wish_event(out, view_, now_, owner_, kind_, kWarning, "BackOff",
             "Back-off making pods: the last ones have gone or failed soon after they were made");
  out.look_again(due);
  return true;
}

// Quotas are written once in a look, with one command.
bool NewPods::full() const {
  return pods_.size() >= (ledger_.any() ? kPodsTogether : kPodsAtOnce) || waiting_ >= kPodsAsked;
}

void NewPods::wish(Wishes& out) {
  if (waiting_ > 0) {
    out.asks = true;
    out.look_again(now_ + patience_);
  }
  const std::string& ns = owner_.meta.ns;
  const auto around = view_.find("namespaces", "", ns);
  if (pods_.empty() || !around)
    return;
  std::vector<CommandBody> quotas = ledger_.take();
  for (std::size_t from = 0; from < pods_.size(); from += kPodsTogether) {
    Reading read = resting_on(owner_);
    add_reading(read, key_of(*around), around->meta.seq);
    std::vector<CommandBody> bodies;
    for (std::size_t i = from; i < std::min(from + kPodsTogether, pods_.size()); ++i) {
      const std::string& name = pods_[i].name;
      add_reading(read, {std::string(kPodType), ns, name}, 0);
      bodies.push_back(std::move(pods_[i].body));
      bodies.emplace_back(PutObject{
          event_about(view_, now_, owner_, kind_, kNormal, "SuccessfulCreate", words(kind_, owner_, true, name)), 0});
    }
    for (CommandBody& quota : quotas) bodies.push_back(std::move(quota));
    quotas.clear();
    CommandBody first = std::move(bodies.front());
    bodies.erase(bodies.begin());
    out.add(std::move(first), std::move(read), std::move(bodies));
  }
  pods_.clear();
}

namespace {

// When it was told first that it fails so, if it was told of late.
WallTime failing_since(const ObjectView& view, Instant now, const Object& owner, const std::string& message) {
  const auto known = known_event(view, owner, "FailedCreate", message);
  if (!known)
    return {};
  const json::object body = body_of(*known);
  const auto first = parse_timestamp(text_in(body, "firstTimestamp")),
             last = parse_timestamp(text_in(body, "lastTimestamp"));
  const bool goes_on = first && last && wall_time(view, now).us - last->us < 2 * kRetryMost.us;
  return goes_on ? *first : WallTime{};
}

}  // namespace

void wish_failed_create(Wishes& out, const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind,
                        const std::string& why, WallTime since) {
  const std::string message = kind.kind == "StatefulSet" ? why : "Error creating: " + why;
  if (!since)
    since = failing_since(view, now, owner, message);
  wish_event(out, view, now, owner, kind, kWarning, "FailedCreate", message);
  if (!out.full.empty())
    return;  // it is looked at again when room is tried for
  const Duration failing = since ? Duration{wall_time(view, now).us - since.us} : Duration{};
  out.look_again(now + std::clamp(failing, kRetryFirst, kRetryMost));
}

void wish_pod_gone(Wishes& out, const ObjectView& view, Instant now, const Object& owner, const WorkloadKind& kind,
                   const Object& pod) {
  out.add(RemoveObject{pod.type, pod.meta.ns, pod.meta.name, pod.meta.seq}, resting_on(owner),
          {PutObject{event_about(view, now, owner, kind, kNormal, "SuccessfulDelete",
                                 words(kind, owner, false, pod.meta.name)),
                     0}});
}

}  // namespace lockstep::kube
