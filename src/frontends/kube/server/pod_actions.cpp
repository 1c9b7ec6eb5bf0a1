#include "frontends/kube/server/pod_actions.h"

#include <boost/json/serialize.hpp>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/server/body.h"
#include "frontends/kube/server/pods.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kBudgets = "poddisruptionbudgets.policy";
constexpr const char* kViolates = "Cannot evict pod as it would violate the pod's disruption budget.";
constexpr int kAgain = 8;
constexpr std::int64_t kRetrySeconds = 10;

void answer_success(const Request& request) {
  answer_json(request,
              json::serialize(json::object{{"kind", "Status"},
                                           {"apiVersion", "v1"},
                                           {"metadata", json::object()},
                                           {"status", "Success"},
                                           {"code", 201}}),
              201);
}

Ref<Object> pod_named(const Request& request, const std::string& name) {
  const auto read = request.visit->read();
  const auto at = read->tables.objects.find({std::string(kPods), request.target.ns, name});
  return at == read->tables.objects.end() ? nullptr : at->second;
}

const Qualified kPodResource{"", "pods"};

// --- eviction ---

// The one budget that the pod counts for. Null: none does. A Status: several do.
Answered<Ref<Object>> budget_of(const Tables& tables, const Object& pod) {
  Ref<Object> found;
  json::object labels;
  if (pod.meta.extra)
    for (const auto& [name, value] : pod.meta.extra->labels) labels[name] = value;
  const std::string type(kBudgets), ns = pod.meta.ns;
  for (auto at = tables.objects.lower_bound({type, ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    const json::value body = parse_own(at->second->body.get());
    const auto wanted = read_label_selector(part(part(body, "spec"), "selector"));
    if (!wanted.ok() || !wanted->matches(labels))
      continue;
    if (found)
      return Status::internal(
          "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
          "support.");
    found = at->second;
  }
  return found;
}

// retry_seconds: 0 = nobody can say when it might do. Clients wait for as long as they are told before they ask again.
Status violates(std::string why, std::int64_t retry_seconds = 0) {
  Status status = Status::too_many_requests(kViolates, retry_seconds);
  status.message = kViolates;
  status.causes.push_back({"DisruptionBudget", std::move(why), ""});
  return status;
}

bool is_ready(const json::object& pod) {
  for (const json::value& one : list_in(part(pod, "status"), "conditions"))
    if (text_in(one, "type") == "Ready")
      return text_in(one, "status") == "True";
  return false;
}

// The budget with one disruption less; nothing: it is not asked for this pod.
Answered<std::optional<CommandBody>> take_from(const Object& budget, const json::object& pod, const std::string& name,
                                               const std::string& now) {
  json::object body = parse_own(budget.body.get()).as_object();
  const json::value &spec = part(body, "spec"), &status = part(body, "status");
  if (!is_ready(pod)) {
    const std::string policy = text_in(spec, "unhealthyPodEvictionPolicy");
    const auto healthy = integer_in(status, "currentHealthy").value_or(0);
    const auto desired = integer_in(status, "desiredHealthy").value_or(0);
    if (policy == "AlwaysAllow" || (healthy >= desired && desired > 0))
      return std::optional<CommandBody>();
  }
  if (integer_in(status, "observedGeneration").value_or(0) <
      integer_in(part(body, "metadata"), "generation").value_or(0))
    return violates(format("The disruption budget {} is still being processed by the server.", budget.meta.name),
                    kRetrySeconds);
  const std::int64_t allowed = integer_in(status, "disruptionsAllowed").value_or(0);
  if (allowed <= 0)
    return violates(format("The disruption budget {} needs {} healthy pods and has {} currently", budget.meta.name,
                           integer_in(status, "desiredHealthy").value_or(0),
                           integer_in(status, "currentHealthy").value_or(0)));
  json::object& changed = body["status"].as_object();
  changed["disruptionsAllowed"] = allowed - 1;
  json::value& disrupted = changed["disruptedPods"];
  if (!disrupted.is_object())
    disrupted.emplace_object();
  disrupted.get_object()[name] = now;
  const Seq read = mutant(Mutant::kEvictedOverBudget) ? 0 : budget.meta.seq;
  return std::optional<CommandBody>(PutObject{with_body(budget, body), read});
}

// What an eviction asks for.
struct EvictionAsk {
  std::optional<std::int64_t> grace;
  std::string uid, version;  // preconditions; "" = none
};

void try_evict(const Asked& request, const EvictionAsk& ask, int tries) {
  const Ref<Object> pod = pod_named(*request, request->target.name);
  if (!pod)
    return answer_status(*request, Status::not_found(kPodResource, request->target.name));
  const auto differs = [&](const char* what, const std::string& wanted, const std::string& is) {
    return answer_status(
        *request, Status::conflict(kPodResource, pod->meta.name,
                                   format("Precondition failed: {0} in precondition: {1}, {0} in object meta: {2}",
                                          what, wanted, is)));
  };
  if (!ask.uid.empty() && ask.uid != uid_text(pod->meta.uid))
    return differs("UID", ask.uid, uid_text(pod->meta.uid));
  if (!ask.version.empty() && ask.version != std::to_string(pod->meta.seq))
    return differs("ResourceVersion", ask.version, std::to_string(pod->meta.seq));
  const auto read = request->visit->read();
  const json::object tree = pod_as_shown(read->tables, *pod);
  const std::string phase = text_in(part(tree, "status"), "phase");
  const bool counts = phase == "Running" && !is_deleting(*pod);  // others are not missed
  const std::string time = time_text(read->now, read->wall_offset);
  std::vector<CommandBody> bodies = deletion_of_pod(
      read->tables, disrupted(*pod, time, "EvictionByEvictionAPI", "Eviction API: evicting"), ask.grace, {});
  if (counts) {
    const auto budget = budget_of(read->tables, *pod);
    if (!budget.ok())
      return answer_status(*request, budget.error());
    if (*budget) {
      auto taken = take_from(**budget, tree, pod->meta.name, time);
      if (!taken.ok())
        return answer_status(*request, taken.error());
      if (*taken)
        bodies.push_back(std::move(**taken));
    }
  }
  if (bodies.empty() || request->dry_run)
    return answer_success(*request);
  request->visit->commit_judged(std::move(bodies), {}, [request, ask, tries](const Result<Answer>& done) {
    if (done.ok())
      return answer_success(*request);
    if (done.error().code == Errc::kConflict && tries > 0)
      return try_evict(request, ask, tries - 1);
    answer_status(*request, status_of(done.error(), kPodResource, request->target.name));
  });
}

// --- binding ---

Status cannot_bind(const Object& pod, const std::string& why) {
  return Status::conflict({"", "pods/binding"}, pod.meta.name, why);
}

// Somebody has found a place for it.
void put_scheduled(json::object& tree, const std::string& time) {
  json::array conditions;
  for (const json::value& one : list_in(part(tree, "status"), "conditions"))
    if (text_in(one, "type") != "PodScheduled")
      conditions.push_back(one);
  conditions.push_back(
      {{"type", "PodScheduled"}, {"status", "True"}, {"lastProbeTime", nullptr}, {"lastTransitionTime", time}});
  json::value& status = tree["status"];
  (status.is_object() ? status.get_object() : status.emplace_object())["conditions"] = std::move(conditions);
}

void try_bind(const Asked& request, const std::string& name, const std::string& node, int tries) {
  const Ref<Object> pod = pod_named(*request, name);
  if (!pod)
    return answer_status(*request, Status::not_found(kPodResource, name));
  const auto read = request->visit->read();
  json::object tree = pod_as_shown(read->tables, *pod);
  if (is_deleting(*pod))
    return answer_status(*request,
                         cannot_bind(*pod, format("pod {} is being deleted, cannot be assigned to a host", name)));
  if (const std::string bound = text_in(spec_of(tree), "nodeName"); !bound.empty())
    return answer_status(*request, cannot_bind(*pod, format("pod {} is already assigned to node \"{}\"", name, bound)));
  if (!list_in(spec_of(tree), "schedulingGates").empty())
    return answer_status(*request, cannot_bind(*pod, format("pod {} has non-empty .spec.schedulingGates", name)));
  if (!read->tables.node(node))
    return answer_status(*request, Status::not_found({"", "nodes"}, node));
  const PodRecords records = records_of_pod(read->tables, *pod);
  std::vector<CommandBody> bodies;
  if (records.job) {  // it waits: for this node alone from now on
    UpdateJob change{.target = {records.job->id, {}}};
    change.only_nodes = std::vector<std::string>{node};
    bodies.emplace_back(std::move(change));
  } else {
    tree["spec"].as_object()["nodeName"] = node;
    json::object bound = tree;
    auto work = pod_work(read->tables, read->now, std::move(tree), pod->meta.seq);
    if (!work.ok())
      return answer_status(*request, status_of(work.error(), kPodResource, name));
    if (!work->waits.empty() && !work->failed)
      return answer_status(*request, cannot_bind(*pod, work->waits));
    // What the node refuses is bound first, and fails then: who watches pods that have not failed is told its place.
    if (work->failed) {
      put_scheduled(bound, time_text(read->now, wall_offset_of(*read)));
      bodies.emplace_back(PutObject{object_of("pods", std::move(bound)), pod->meta.seq});
    } else {
      bodies.push_back(std::move(work->body));
    }
  }
  if (request->dry_run)
    return answer_success(*request);
  Reading reading{.records = {{key_of(*pod), pod->meta.seq}}};
  request->visit->commit_judged(std::move(bodies), std::move(reading),
                                [request, name, node, tries](const Result<Answer>& done) {
                                  if (done.ok())
                                    return answer_success(*request);
                                  if (done.error().code == Errc::kConflict && tries > 0)
                                    return try_bind(request, name, node, tries - 1);
                                  answer_status(*request, status_of(done.error(), kPodResource, name));
                                });
}

}  // namespace

namespace {

void bind_as(const Asked& request, const json::object& body) {
  const std::string said = text_in(part(body, "metadata"), "name");
  if (!request->target.subresource.empty() && !said.empty() && said != request->target.name)
    return answer_status(*request, Status::bad_request("name in URL does not match name in Binding object"));
  const std::string name = request->target.subresource.empty() ? said : request->target.name;
  const std::string node = text_in(part(body, "target"), "name"), kind = text_in(part(body, "target"), "kind");
  if (name.empty() || node.empty() || (!kind.empty() && kind != "Node"))
    return answer_status(
        *request, Status::invalid({"", "Binding"}, name, {{"FieldValueRequired", "Required value", "target.name"}}));
  try_bind(request, name, node, kAgain);
}

void evict_as(const Asked& request, const json::object& body) {
  const std::string name = text_in(part(body, "metadata"), "name");
  if (!name.empty() && name != request->target.name)
    return answer_status(*request, Status::bad_request("name in URL does not match name in Eviction object"));
  const json::value& options = part(body, "deleteOptions");
  if (!list_in(options, "dryRun").empty())
    request->dry_run = true;
  const json::value& conditions = part(options, "preconditions");
  try_evict(
      request,
      {integer_in(options, "gracePeriodSeconds"), text_in(conditions, "uid"), text_in(conditions, "resourceVersion")},
      kAgain);
}

}  // namespace

void bind_pod(const Asked& request) {
  read_body_then(request, [request](const json::object& body) { bind_as(request, body); });
}

void evict_pod(const Asked& request) {
  if (request->http().body.empty())
    return evict_as(request, {});
  read_body_then(request, [request](const json::object& body) { evict_as(request, body); });
}

}  // namespace lockstep::kube
