// HorizontalPodAutoscalers: as many replicas as what their pods use asks for. What an autoscaler wanted lately, and how
// it went there, stands in a record beside it that no path of the API shows.
// Source: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "frontends/kube/controllers/autoscale_rules.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/resource.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kScaler{"horizontalpodautoscalers.autoscaling", "autoscaling/v2", "HorizontalPodAutoscaler",
                               "horizontal-pod-autoscaler"};
constexpr const char* kNotes = "autoscaler-notes.lockstep.io";
constexpr Duration kEvery = seconds(15);
constexpr Duration kWarmUp = minutes(5);       // of a pod: what it computes while it starts says little
constexpr Duration kFirstReady = seconds(30);  // of a pod that was never ready
constexpr std::int64_t kReplicasMax = 1'000'000;

// --- what is scaled ---

struct ScaledKind {
  std::string type;
  std::vector<std::string> replicas{"spec", "replicas"}, selector{"spec", "selector"};
};

const json::value* at_path(const json::value& tree, const std::vector<std::string>& path) {
  const json::value* at = &tree;
  for (const std::string& word : path)
    if (at)
      at = member(*at, word);
  return at;
}

// "…spec.replicas" of a definition's scale; empty: it says none.
std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> out;
  for (std::string& word : split(path, '.'))
    if (!word.empty())
      out.push_back(std::move(word));
  return out;
}

std::optional<ScaledKind> scaled_kind(const ObjectView& view, const json::value& reference) {
  const GroupVersion of = split_group_version(text_in(reference, "apiVersion"));
  const std::string kind = text_in(reference, "kind");
  constexpr std::array<std::array<std::string_view, 3>, 4> kBuiltIn{
      {{"apps", "Deployment", "deployments.apps"},
       {"apps", "ReplicaSet", "replicasets.apps"},
       {"apps", "StatefulSet", "statefulsets.apps"},
       {"", "ReplicationController", "replicationcontrollers"}}};
  for (const auto& [group, name, type] : kBuiltIn)
    if (of.group == group && kind == name)
      return ScaledKind{std::string(type)};
  const std::string definitions = "customresourcedefinitions.apiextensions.k8s.io";
  const auto& objects = view.objects();
  for (auto at = objects.lower_bound({definitions, "", ""});
       at != objects.end() && std::get<0>(at->first) == definitions; ++at) {
    const json::object body = body_of(*at->second);
    const json::value& spec = part(body, "spec");
    if (text_in(spec, "group") != of.group || text_in(part(spec, "names"), "kind") != kind)
      continue;
    for (const json::value& version : list_in(spec, "versions")) {
      const json::value& scale = part(part(version, "subresources"), "scale");
      if (text_in(version, "name") == of.version && scale.is_object())
        return ScaledKind{at->second->meta.name, words_of(text_in(scale, "specReplicasPath")),
                          words_of(text_in(scale, "labelSelectorPath"))};
    }
  }
  return std::nullopt;
}

// A custom kind's is a text, a controller's a map of labels or a LabelSelector.
std::optional<LabelSelector> selector_of_target(const ScaledKind& kind, const json::value& tree) {
  const json::value* said = at_path(tree, kind.selector);
  if (!said)
    return std::nullopt;
  if (said->is_string()) {
    auto read = parse_label_selector(text_of(*said));
    return read.ok() && !said->get_string().empty() ? std::optional(std::move(*read)) : std::nullopt;
  }
  if (!said->is_object())
    return std::nullopt;
  if (kind.type == "replicationcontrollers")
    return select_labels(said->get_object());
  auto read = read_label_selector(*said);
  return read.ok() ? std::optional(std::move(*read)) : std::nullopt;
}

// --- what its pods use ---

struct Wanted {  // one metric of the autoscaler
  std::string resource, container;
  ScaleTarget target;
};

std::int64_t in_units(const Quantity& amount, std::string_view resource) {
  return resource == "cpu" ? amount.thousandths() : amount.whole();
}

std::int64_t of_container(const ContainerUse& use, std::string_view resource) {
  return resource == "cpu" ? use.cpu_nanos / 1'000'000 : use.memory;
}

// Source: the flags' documented meaning, --horizontal-pod-autoscaler-cpu-initialization-period and
// --horizontal-pod-autoscaler-initial-readiness-delay.
bool says_something(const PodReading& pod, const std::vector<ContainerUse>& uses, WallTime wall, WallTime measured) {
  if (pod.phase == PodReading::Phase::kPending || !pod.started)
    return false;
  if (pod.started.us + kWarmUp.us > wall.us) {
    const Duration window = uses.empty() ? Duration{} : uses.front().window;
    return pod.ready && measured.us >= pod.ready_since.us + window.us;
  }
  return pod.ready || pod.started.us + kFirstReady.us <= pod.ready_since.us;
}

class Measuring {
 public:
  Measuring(const ObjectView& view, const UseSource& source, Instant now) : view_(view), source_(source), now_(now) {}

  Result<std::vector<ScalePod>> pods(const std::string& ns, const LabelSelector& selector, const Wanted& wanted) const {
    std::vector<ScalePod> out;
    bool any = false;
    for (const auto& [key, object] : view_.in(kPodType, ns)) {
      if (!selects(selector, *object))
        continue;
      any = true;
      const auto pod = view_.pod(ns, object->meta.name);
      if (!pod || pod->deleting() || pod->phase == PodReading::Phase::kFailed)
        continue;
      out.push_back(TRY(measure(*pod, wanted)));
    }
    if (!any)
      return not_found("no pods returned by selector while calculating replica count");
    return out;
  }

 private:
  Result<ScalePod> measure(const PodReading& pod, const Wanted& wanted) const {
    ScalePod out;
    if (wanted.target.utilization)
      out.requested = TRY(requested(*pod.object, wanted));
    const PodRecords records = records_of_pod(view_.tables(), *pod.object);
    const auto uses = records.job && records.node && source_ ? source_(records.node->id, records.job->id)
                                                             : std::vector<ContainerUse>();
    std::int64_t sum = 0;
    bool measured = false;
    for (const ContainerUse& use : uses)
      if (wanted.container.empty() || use.container == wanted.container) {
        sum += of_container(use, wanted.resource);
        measured = true;
      }
    if (measured)
      out.used = sum;
    const WallTime wall = wall_time(view_, now_);
    const WallTime at = uses.empty() ? wall : wall_time(view_, uses.front().at);
    out.ready =
        wanted.resource == "cpu" ? says_something(pod, uses, wall, at) : pod.phase != PodReading::Phase::kPending;
    return out;
  }

  Result<std::int64_t> requested(const Object& pod, const Wanted& wanted) const {
    const json::object body = body_of(pod);
    std::int64_t sum = 0;
    bool found = wanted.container.empty();
    for (const char* list : {"containers", "initContainers"})
      for (const json::value& one : containers_in(body, list)) {
        if (list[0] == 'i' && !is_sidecar(one))
          continue;
        const std::string name = text_in(one, "name");
        if (!wanted.container.empty() && name != wanted.container)
          continue;
        found = true;
        const auto amount = quantity_in(part(part(one, "resources"), "requests"), wanted.resource);
        if (!amount)
          return not_found(
              format("missing request for {} in container {} of Pod {}", wanted.resource, name, pod.meta.name));
        sum += in_units(*amount, wanted.resource);
      }
    if (!found)
      return not_found(format("container {} not present in metrics for pod {}/{}", wanted.container, pod.meta.ns.get(),
                              pod.meta.name));
    return sum;
  }

  const ObjectView& view_;
  const UseSource& source_;
  Instant now_;
};

// --- what it is told to do ---

ScaleDirection read_direction(const json::value& said, ScaleDirection standard) {
  if (!said.is_object())
    return standard;
  if (const auto window = integer_in(said, "stabilizationWindowSeconds"))
    standard.window = seconds(std::clamp<std::int64_t>(*window, 0, 3600));
  const std::string select = text_in(said, "selectPolicy");
  if (select == "Min")
    standard.select = ScaleDirection::Select::kLeast;
  if (select == "Disabled")
    standard.select = ScaleDirection::Select::kDisabled;
  const json::array& policies = list_in(said, "policies");
  if (!policies.empty())
    standard.policies.clear();
  for (const json::value& one : policies)
    standard.policies.push_back({text_in(one, "type") == "Percent", whole_in(one, "value", 0),
                                 seconds(std::clamp<std::int64_t>(whole_in(one, "periodSeconds", 15), 1, 1800))});
  return standard;
}

ScaleBehavior read_behavior(const json::value& said) {
  ScaleBehavior out;
  if (!said.is_object())
    return out;
  out.plain = false;
  out.up = read_direction(part(said, "scaleUp"), out.up);
  out.down = read_direction(part(said, "scaleDown"), out.down);
  return out;
}

Tolerances read_tolerances(const json::value& said) {
  Tolerances out;
  if (const auto up = quantity_in(part(said, "scaleUp"), "tolerance"))
    out.up = up->approximate();
  if (const auto down = quantity_in(part(said, "scaleDown"), "tolerance"))
    out.down = down->approximate();
  return out;
}

// --- what it remembers ---

std::vector<ScaleNote> read_notes(const json::value& body, const char* list) {
  std::vector<ScaleNote> out;
  for (const json::value& one : list_in(body, list))
    if (one.is_array() && one.get_array().size() == 2)
      out.push_back({Instant{static_cast<std::int64_t>(number_of(one.get_array()[0]))},
                     static_cast<std::int64_t>(number_of(one.get_array()[1]))});
  return out;
}

json::array written_notes(const std::vector<ScaleNote>& notes) {
  json::array out;
  for (const ScaleNote& note : notes) out.push_back(json::array{note.at.us, note.number});
  return out;
}

json::object notes_body(const ScaleHistory& history) {
  return {{"wanted", written_notes(history.wanted)},
          {"ups", written_notes(history.ups)},
          {"downs", written_notes(history.downs)}};
}

// --- one look ---

class Autoscaling {
 public:
  Autoscaling(const ObjectView& view, const UseSource& source, const Object& scaler, Instant now, Wishes& out)
      : view_(view), scaler_(scaler), now_(now), out_(out), measuring_(view, source, now), body_(body_of(scaler)) {
    if (const json::object* had = member_object(body_, "status"))
      status_ = *had;
  }

  void run() {
    // It has scaled a moment ago, and its own words woke it: they stand until the next look is due.
    const auto scaled = parse_timestamp(text_in(status_, "lastScaleTime"));
    if (scaled && whole_in(status_, "observedGeneration", 0) == generation_of(body_) &&
        wall_time(view_, now_).us - scaled->us < kEvery.us)
      return out_.look_again(instant_of(view_, {scaled->us + kEvery.us}));
    out_.look_again(now_ + kEvery);
    const json::value& spec = part(body_, "spec");
    const json::value& reference = part(spec, "scaleTargetRef");
    const std::string ns = scaler_.meta.ns, name = text_in(reference, "name");
    kind_ = scaled_kind(view_, reference);
    const auto target = kind_ ? view_.find(kind_->type, ns, name) : nullptr;
    if (!target || kind_->replicas.empty()) {
      const std::string why = kind_ && !target
                                  ? format("{} \"{}\" not found", kind_->type, name)
                                  : format("no matches for kind \"{}\" in group \"{}\"", text_in(reference, "kind"),
                                           split_group_version(text_in(reference, "apiVersion")).group);
      tell(kWarning, "FailedGetScale", why);
      condition("AbleToScale", false, "FailedGetScale",
                "the HPA controller was unable to get the target's current scale: " + why);
      return finish(nullptr, 0, std::nullopt);
    }
    const json::value tree(body_of(*target));
    const json::value* said = at_path(tree, kind_->replicas);
    const std::int64_t current = said && is_number(*said) ? static_cast<std::int64_t>(number_of(*said)) : 1;
    const json::value& status = part(tree, "status");
    status_["currentReplicas"] = std::clamp<std::int64_t>(whole_in(status, "replicas", current), 0, kReplicasMax);
    condition("AbleToScale", true, "SucceededGetScale",
              "the HPA controller was able to get the target's current scale");
    scale(*target, tree, current, spec);
  }

 private:
  void scale(const Object& target, const json::value& tree, std::int64_t current, const json::value& spec) {
    const std::int64_t least = std::clamp<std::int64_t>(whole_in(spec, "minReplicas", 1), 0, kReplicasMax);
    const std::int64_t most = std::clamp<std::int64_t>(whole_in(spec, "maxReplicas", 1), least, kReplicasMax);
    read_history();
    const ScaleBehavior behavior = read_behavior(part(spec, "behavior"));
    if (history_.wanted.empty())
      note_wanted(history_, current, behavior, now_);
    if (current == 0 && least != 0) {
      condition("ScalingActive", false, "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero");
      return finish(nullptr, current, 0);
    }
    if (current > most)
      return go(target, current, most, "Current number of replicas above Spec.MaxReplicas");
    if (current < least)
      return go(target, current, least, "Current number of replicas below Spec.MinReplicas");
    const auto wanted = compute(tree, current, spec);
    if (!wanted)
      return finish(nullptr, current, whole_in(status_, "desiredReplicas", current));
    const std::string reason = *wanted > current   ? metric_ + " above target"
                               : *wanted < current ? "All metrics below target"
                                                   : "";
    note_wanted(history_, *wanted, behavior, now_);
    const ScaleStep step = next_step(current, *wanted, least, most, behavior, history_, now_);
    if (step.held)
      condition("AbleToScale", true, step.held,
                *wanted < step.replicas
                    ? "recent recommendations were higher than current one, applying the highest recent recommendation"
                    : "recent recommendations were lower than current one, applying the lowest recent recommendation");
    else
      condition("AbleToScale", true, "ReadyForNewScale", "recommended size matches current size");
    condition("ScalingLimited", step.limited != nullptr, step.limited ? step.limited : "DesiredWithinRange",
              step.limited_message);
    go(target, current, step.replicas, reason);
  }

  // The most that any metric asks for. Where one says nothing it grows by the others, but does not shrink.
  std::optional<std::int64_t> compute(const json::value& tree, std::int64_t current, const json::value& spec) {
    const auto selector = selector_of_target(*kind_, tree);
    if (!selector) {
      tell(kWarning, "SelectorRequired", "selector is required");
      condition("ScalingActive", false, "InvalidSelector", "the HPA target's scale is missing a selector");
      return std::nullopt;
    }
    std::optional<std::int64_t> most;
    std::size_t invalid = 0;
    std::string first_reason, first_message;
    json::array told;
    const json::array& metrics = list_in(spec, "metrics");
    const Tolerances tolerances = read_tolerances(part(spec, "behavior"));
    for (const json::value& metric : metrics) {
      std::string name;
      const auto made = propose(metric, *selector, current, tolerances, name, told);
      if (!made.ok()) {
        const std::string reason = format("FailedGet{}Metric", text_in(metric, "type"));
        tell(kWarning, reason.c_str(), made.error().message);
        if (invalid++ == 0) {
          first_reason = reason;
          first_message = made.error().message;
        }
      } else if (!most || *made > *most) {
        most = *made;
        metric_ = name;
      }
    }
    if (told.empty())
      status_["currentMetrics"] = nullptr;
    else
      status_["currentMetrics"] = std::move(told);
    if (invalid > 0 && (invalid == metrics.size() || !most || *most < current)) {
      tell(
          kWarning, "FailedComputeMetricsReplicas",
          format("invalid metrics ({} invalid out of {}), first error is: {}", invalid, metrics.size(), first_message));
      condition("ScalingActive", false, first_reason,
                "the HPA was unable to compute the replica count: " + first_message);
      return std::nullopt;
    }
    if (!most)
      return std::nullopt;
    condition("ScalingActive", true, "ValidMetricFound",
              "the HPA was able to successfully calculate a replica count from " + metric_);
    return most;
  }

  Result<std::int64_t> propose(const json::value& metric, const LabelSelector& selector, std::int64_t current,
                               const Tolerances& tolerances, std::string& name, json::array& told) {
    const std::string type = text_in(metric, "type");
    const bool of_one = type == "ContainerResource";
    if (type != "Resource" && !of_one)
      return other_metrics(type, metric);
    const char* key = of_one ? "containerResource" : "resource";
    const json::value& source = part(metric, key);
    const json::value& target = part(source, "target");
    Wanted wanted{text_in(source, "name"), text_in(source, "container"), {}};
    if (wanted.resource != "cpu" && wanted.resource != "memory")
      return not_found(
          format("failed to get {} {}: unable to get metrics for resource {}: no metrics returned from "
                 "resource metrics API",
                 wanted.resource, member(target, "averageValue") ? "usage" : "utilization", wanted.resource));
    if (const auto average = quantity_in(target, "averageValue")) {
      wanted.target = {false, std::max<std::int64_t>(1, in_units(*average, wanted.resource))};
    } else if (const auto percent = integer_in(target, "averageUtilization"); percent && *percent > 0) {
      wanted.target = {true, *percent};
    } else {
      return invalid(
          "invalid resource metric source: neither an average utilization target nor an average value "
          "(usage) target was set");
    }
    const char* what = wanted.target.utilization ? "utilization" : "usage";
    const auto pods = measuring_.pods(scaler_.meta.ns, selector, wanted);
    const auto made =
        pods.ok() ? propose_replicas(current, *pods, wanted.target, tolerances) : Result<ScaleProposal>(pods.error());
    if (!made.ok())
      return Error{
          made.error().code, format("failed to get {} {}: {}", wanted.resource, what, made.error().message), {}};
    json::object now{{"averageValue", amount_text(made->average, wanted.resource)}};
    if (made->utilization)
      now["averageUtilization"] = *made->utilization;
    json::object shown{{"name", wanted.resource}, {"current", std::move(now)}};
    if (of_one)
      shown["container"] = wanted.container;
    told.push_back(json::object{{"type", type}, {key, std::move(shown)}});
    name = wanted.target.utilization ? wanted.resource + " resource utilization (percentage of request)"
                                     : wanted.resource + " resource";
    return made->replicas;
  }

  static std::string amount_text(std::int64_t amount, std::string_view resource) {
    if (resource != "cpu")
      return std::to_string(amount);
    const auto read = parse_quantity(format("{}m", amount));
    return read.ok() ? read->text() : "0";
  }

  static Error other_metrics(const std::string& type, const json::value& metric) {
    const char* key = type == "Pods" ? "pods" : type == "Object" ? "object" : "external";
    const std::string name = text_in(part(part(metric, key), "metric"), "name");
    const char* api = type == "External" ? "external" : "custom";
    return not_found(
        format("unable to get metric {}: unable to fetch metrics from {} metrics API: no {} metrics API "
               "({}.metrics.k8s.io) registered",
               name, api, api, api));
  }

  // --- writing ---

  void go(const Object& target, std::int64_t current, std::int64_t desired, const std::string& reason) {
    if (desired == current)
      return finish(nullptr, current, desired);
    json::object tree = body_of(target);
    json::object* at = &tree;
    for (std::size_t i = 0; i + 1 < kind_->replicas.size(); ++i) {
      json::value& next = (*at)[kind_->replicas[i]];
      at = next.is_object() ? &next.get_object() : &next.emplace_object();
    }
    (*at)[kind_->replicas.back()] = desired;
    if (json::value* metadata = tree.if_contains("metadata"); metadata && metadata->is_object())
      metadata->get_object()["generation"] = generation_of(tree) + 1;
    const Object scaled = with_body(target, tree);
    note_scaled(history_, current, desired, now_);
    condition("AbleToScale", true, "SucceededRescale",
              format("the HPA controller was able to update the target scale to {}", desired));
    status_["lastScaleTime"] = time_text(now_, view_.wall_offset());
    finish(&scaled, target.meta.seq, desired);
    tell(kNormal, "SuccessfulRescale", format("New size: {}; reason: {}", desired, reason));
  }

  // Target, status and notes change together, or nothing does.
  void finish(const Object* scaled, Seq target_seq, std::optional<std::int64_t> desired) {
    status_["desiredReplicas"] = desired.value_or(whole_in(status_, "desiredReplicas", 0));
    if (!status_.contains("currentMetrics"))
      status_["currentMetrics"] = nullptr;
    if (const auto generation = generation_of(body_); generation > 0)
      status_["observedGeneration"] = generation;
    std::vector<CommandBody> bodies;
    Reading read;
    if (scaled)
      bodies.emplace_back(PutObject{*scaled, target_seq});
    if (!same_json(part(body_, "status"), json::value(status_))) {
      json::object told = body_;
      told["status"] = status_;
      bodies.emplace_back(PutObject{with_body(scaler_, told), scaler_.meta.seq});
    }
    if (const auto notes = changed_notes()) {
      add_reading(read, key_of(*notes), notes_seq_);
      bodies.emplace_back(PutObject{*notes, notes_seq_});
    }
    if (bodies.empty())
      return;
    CommandBody first = std::move(bodies.front());
    bodies.erase(bodies.begin());
    out_.add(std::move(first), std::move(read), std::move(bodies));
  }

  void read_history() {
    const auto known = view_.find(kNotes, scaler_.meta.ns, scaler_.meta.name);
    if (!known)
      return;
    notes_seq_ = known->meta.seq;
    const bool ours = known->meta.extra && !known->meta.extra->owners.empty() &&
                      known->meta.extra->owners.front().uid == scaler_.meta.uid;
    if (!ours)  // of one of the same name that is gone
      return;
    const json::value body(body_of(*known));
    written_ = body;
    history_ = {read_notes(body, "wanted"), read_notes(body, "ups"), read_notes(body, "downs")};
  }

  std::optional<Object> changed_notes() {
    json::object body = notes_body(history_);
    bool same = written_.is_object() && !history_.wanted.empty();
    for (const auto& [key, value] : body) same = same && same_json(part(written_, key), value);
    if (same || history_.wanted.empty() || !takes_new_objects(view_, scaler_.meta.ns))
      return std::nullopt;
    body["metadata"] = {{"name", scaler_.meta.name},
                        {"namespace", scaler_.meta.ns.get()},
                        {"ownerReferences", json::array{reference_to(scaler_, kScaler)}}};
    return object_of(kNotes, std::move(body));
  }

  void condition(const char* type, bool is, std::string_view reason, const std::string& message) {
    const json::value* had = find_condition(status_, type);
    const char* word = is ? "True" : "False";
    std::string since = time_text(now_, view_.wall_offset());
    if (had && text_in(*had, "status") == word)
      since = text_in(*had, "lastTransitionTime");
    json::object made{{"type", type},
                      {"status", word},
                      {"lastTransitionTime", since},
                      {"reason", as_json(reason)},
                      {"message", message}};
    json::value& all = status_["conditions"];  // in the order of their first telling
    json::array& conditions = all.is_array() ? all.get_array() : all.emplace_array();
    for (json::value& one : conditions)
      if (text_in(one, "type") == type) {
        one = std::move(made);
        return;
      }
    conditions.push_back(std::move(made));
  }

  void tell(const char* type, const char* reason, const std::string& message) {
    wish_event(out_, view_, now_, scaler_, kScaler, type, reason, message);
  }

  const ObjectView& view_;
  const Object& scaler_;
  Instant now_;
  Wishes& out_;
  Measuring measuring_;
  json::object body_, status_;
  std::optional<ScaledKind> kind_;
  std::string metric_;  // that asked for the most
  ScaleHistory history_;
  json::value written_;  // the notes as they are
  Seq notes_seq_ = 0;
};

class Autoscalers final : public Reconciler {
 public:
  explicit Autoscalers(UseSource source) : source_(std::move(source)) {}
  std::string_view name() const override { return kScaler.component; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kScaler.type)
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto scaler = view.find(kScaler.type, std::get<1>(key), std::get<2>(key));
    if (scaler && !is_deleting(*scaler))
      Autoscaling(view, source_, *scaler, now, out).run();
  }

 private:
  UseSource source_;
};

}  // namespace

std::shared_ptr<const Reconciler> autoscaler_controller(UseSource source) {
  return std::make_shared<Autoscalers>(std::move(source));
}

}  // namespace lockstep::kube
