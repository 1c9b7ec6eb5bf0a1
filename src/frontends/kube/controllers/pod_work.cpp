#include "frontends/kube/controllers/pod_work.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/claims.h"
#include "frontends/kube/kinds/node_admission.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"
#include "model/bounds.h"
#include "model/job.h"
#include "rules/labels.h"

namespace lockstep::kube {

namespace {

constexpr const char* kSchedulerName = "default-scheduler";
constexpr const char* kNoClaims =
    "cannot allocate all claims: resource claims are not allocated here yet; ask for devices among the resources "
    "(nvidia.com/gpu)";
constexpr const char* kGated = "Scheduling is blocked due to non-empty scheduling gates";

Duration wall_offset_of(const Tables& tables) { return tables.cluster ? tables.cluster->wall_offset : Duration{}; }

Ref<Object> find(const Tables& tables, std::string_view type, std::string_view ns, std::string_view name) {
  const auto at = tables.objects.find({std::string(type), std::string(ns), std::string(name)});
  return at == tables.objects.end() ? nullptr : at->second;
}

// --- where ---

// Namespaces by their labels.
std::vector<std::string> namespaces_of(const Tables& tables, const json::value& selector) {
  std::vector<std::string> out;
  const auto read = read_label_selector(selector);
  const std::string type("namespaces");
  for (auto at = tables.objects.lower_bound({type, "", ""});
       read.ok() && at != tables.objects.end() && std::get<0>(at->first) == type && out.size() < kNamesMax; ++at) {
    const Labels* labels = at->second->meta.extra ? &at->second->meta.extra->labels : nullptr;
    if (read->matches([&](std::string_view key) -> std::optional<std::string_view> {
          const std::string* value = labels ? lockstep::label_of(*labels, key) : nullptr;
          return value ? std::optional<std::string_view>(*value) : std::nullopt;
        }))
      out.push_back(at->second->meta.name);
  }
  return out;
}

// Why none of the nodes will ever do, as they are now; "": one will, when it has room.
std::string refused_by_all(const Tables& tables, const GroupSpec& group) {
  std::vector<std::string> why;
  for (const auto& [id, node] : tables.nodes) {
    why.push_back(node_keeps_off(group, *node));
    if (why.back().empty())
      return {};
  }
  return unschedulable_words(tables.nodes.size(), std::move(why));
}

// --- whose, and with what ---

bool is_owned_by(const Object& object, std::string_view uid) {
  return object.meta.extra && std::ranges::any_of(object.meta.extra->owners,
                                                  [&](const OwnerRef& owner) { return uid_text(owner.uid) == uid; });
}

// Root. Null: the cluster does not know them yet.
const User* owner_of(const Tables& tables) {
  if (const User* root = tables.user("local", 0))
    return root;
  // A cluster that a user has started for themselves runs their work only.
  const auto first = tables.users.begin();
  return first == tables.users.end() ? nullptr : first->second.get();
}

// Where the volumes of claims lie, and what they say of nodes.
struct ClaimedVolumes {
  std::map<std::string, std::string> paths;    // by the pod's own names of them
  std::map<std::string, std::uint64_t> bytes;  // likewise: of those that the local provisioner makes
  std::vector<json::value> nodes;              // nodeAffinity.required of each that has one
};

// Another pod, which is not over, that would have the claim's volume first.
bool others_use(const Tables& tables, const json::object& pod, const std::string& claim, bool with_job) {
  const std::string type(kPods), ns = text_in(part(pod, "metadata"), "namespace"),
                                 own = text_in(part(pod, "metadata"), "name"), quoted = format("\"{}\"", claim);
  for (auto at = tables.objects.lower_bound({type, ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    const Object& other = *at->second;
    if (other.meta.name == own || other.body.find(quoted) == std::string::npos || (with_job && other.shows.empty()))
      continue;
    const json::object tree = pod_as_shown(tables, other);
    if (uses_claim(tree, claim) && !pod_has_ended(tree) && (!with_job || records_of_pod(tables, other).job))
      return true;
  }
  return false;
}

// The claim of a class whose volumes are made on the node of their first pod: that pod decides where.
Result<std::string> path_to_be(const Tables& tables, const json::object& pod, const Object& claim,
                               const json::object& tree) {
  const auto storage = find(tables, kStorageClasses, "", storage_class_of(tree));
  const json::value rules = storage ? parse_own(storage->body.get()) : json::value();
  if (text_in(rules, "provisioner") != kLocalProvisioner || others_use(tables, pod, claim.meta.name, true))
    return Error{Errc::kUnavailable, "pod has unbound immediate PersistentVolumeClaims", {}};
  if (const std::string why = why_not_local(tables, tree); !why.empty())
    return Error{
        Errc::kUnavailable, format("persistentvolumeclaim \"{}\" has no volume: {}", claim.meta.name, why), {}};
  return provisioned_name(uid_text(claim.meta.uid));
}

void note_bytes(ClaimedVolumes& out, const std::string& name, const json::value& amounts) {
  if (const auto bytes = quantity_in(amounts, "storage"); bytes && bytes->sign() > 0)
    out.bytes[name] = static_cast<std::uint64_t>(bytes->whole());
}

// Error: why the pod cannot be placed yet.
Result<ClaimedVolumes> claims_of(const Tables& tables, const json::object& pod) {
  ClaimedVolumes out;
  const std::string ns = text_in(part(pod, "metadata"), "namespace");
  for (const json::value& volume : list_in(spec_of(pod), "volumes")) {
    const std::string claim = claim_of_volume(pod, volume), name = text_in(volume, "name");
    if (claim.empty())
      continue;
    const auto object = find(tables, kClaims, ns, claim);
    if (!object)
      return Error{Errc::kUnavailable, format("persistentvolumeclaim \"{}\" not found", claim), {}};
    if (is_deleting(*object))
      return Error{Errc::kUnavailable, format("persistentvolumeclaim \"{}\" is being deleted", claim), {}};
    const json::object tree = tree_of(*object, {"", ""}, {});
    if (part(volume, "ephemeral").is_object() && !is_owned_by(*object, text_in(part(pod, "metadata"), "uid")))
      return Error{Errc::kUnavailable,
                   format("PVC {}/{} was not created for pod {}/{} (pod is not owner)", ns, claim, ns,
                          text_in(part(pod, "metadata"), "name")),
                   {}};
    const auto modes = texts_in(part(tree, "spec"), "accessModes");
    if (std::ranges::find(modes, "ReadWriteOncePod") != modes.end() && others_use(tables, pod, claim, false))
      return Error{Errc::kUnavailable,
                   "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
                   "by another pod",
                   {}};
    const std::string bound = text_in(part(tree, "spec"), "volumeName");
    if (bound.empty()) {
      out.paths[name] = TRY(path_to_be(tables, pod, *object, tree));
      note_bytes(out, name, part(part(part(tree, "spec"), "resources"), "requests"));
      continue;
    }
    const auto at = find(tables, kVolumes, "", bound);
    if (!at)
      return Error{Errc::kUnavailable, format("persistentvolume \"{}\" not found", bound), {}};
    const json::object has = tree_of(*at, {"", ""}, {});
    if (!is_kept_for(has, ns, claim, uid_text(object->meta.uid)) && part(part(has, "spec"), "claimRef").is_object())
      return Error{Errc::kUnavailable, format("persistentvolume \"{}\" is another claim's", bound), {}};
    out.paths[name] = TRY(path_of_volume(has, bound));
    if (text_in(part(part(has, "metadata"), "annotations"), "pv.kubernetes.io/provisioned-by") == kLocalProvisioner)
      note_bytes(out, name, part(part(has, "spec"), "capacity"));
    if (const json::value& required = part(part(part(has, "spec"), "nodeAffinity"), "required"); required.is_object())
      out.nodes.push_back(required);
  }
  return out;
}

std::vector<std::string> name_servers_of(const Tables& tables) {
  const auto dns = find(tables, "services", "kube-system", "kube-dns");
  if (!dns)
    return {};
  const std::string address = text_in(part(parse_own(dns->body.get()), "spec"), "clusterIP");
  return address.empty() || address == "None" ? std::vector<std::string>{} : std::vector<std::string>{address};
}

// --- what the status says before the pod has a job ---

void put_scheduled(json::object& tree, const std::string& reason, const std::string& message, const std::string& time) {
  json::value& status = tree["status"];
  if (!status.is_object())
    status.emplace_object();
  if (text_in(status, "phase").empty())
    status.as_object()["phase"] = "Pending";
  json::object wanted{{"type", "PodScheduled"},     {"status", "False"}, {"lastProbeTime", nullptr},
                      {"lastTransitionTime", time}, {"reason", reason},  {"message", message}};
  json::array conditions;
  for (const json::value& one : list_in(status, "conditions")) {
    if (text_in(one, "type") != "PodScheduled") {
      conditions.push_back(one);
      continue;
    }
    if (text_in(one, "status") == "False")
      if (const json::value& since = part(one, "lastTransitionTime"); since.is_string())
        wanted["lastTransitionTime"] = since;
  }
  conditions.push_back(std::move(wanted));
  status.as_object()["conditions"] = std::move(conditions);
}

void drop_scheduled(json::object& tree) {
  json::value* status = tree.if_contains("status");
  if (!status || list_in(*status, "conditions").empty())
    return;
  json::array kept;
  for (const json::value& one : list_in(*status, "conditions"))
    if (text_in(one, "type") != "PodScheduled")
      kept.push_back(one);
  status->as_object()["conditions"] = std::move(kept);
}

CommandBody object_alone(const Tables& tables, Instant now, json::object tree, const char* reason,
                         const std::string& why, Seq if_seq) {
  put_scheduled(tree, reason, why, time_text(now, wall_offset_of(tables)));
  return PutObject{object_of(kPods, std::move(tree)), if_seq};
}

}  // namespace

CommandBody pod_without_work(const Tables& tables, Instant now, json::object tree, const std::string& why, Seq if_seq) {
  return object_alone(tables, now, std::move(tree), "Unschedulable", why, if_seq);
}

Result<PodWork> pod_work(const Tables& tables, Instant now, json::object tree, Seq if_seq) {
  const json::value& spec = spec_of(tree);
  const std::string ns = text_in(part(tree, "metadata"), "namespace");
  const auto wait = [&](const char* reason, std::string why) {
    CommandBody body = object_alone(tables, now, std::move(tree), reason, why, if_seq);
    return PodWork{std::move(body), std::move(why)};
  };
  if (!list_in(spec, "schedulingGates").empty())
    return wait("SchedulingGated", kGated);
  // Somebody else's scheduler binds it, or nobody.
  const std::string scheduler = text_in(spec, "schedulerName");
  if (text_in(spec, "nodeName").empty() && !scheduler.empty() && scheduler != kSchedulerName)
    return PodWork{PutObject{object_of(kPods, std::move(tree)), if_seq},
                   format("scheduler {} is to bind it", scheduler)};
  const auto fail = [&](NodeRefusal refusal) {
    json::object& status = tree["status"].is_object() ? tree["status"].get_object() : tree["status"].emplace_object();
    status["phase"] = "Failed";
    status["reason"] = std::move(refusal.reason);
    status["message"] = kRejected + refusal.message;
    status["startTime"] = time_text(now, wall_offset_of(tables));
    return PodWork{PutObject{object_of(kPods, std::move(tree)), if_seq}, std::move(refusal.message), true};
  };
  if (NodeRefusal refusal = node_refusal(tree); !refusal.reason.empty())
    return fail(std::move(refusal));
  if (!list_in(spec, "resourceClaims").empty())
    return wait("Unschedulable", kNoClaims);
  auto claims = claims_of(tables, tree);
  if (!claims.ok())
    return wait("Unschedulable", claims.error().message);
  const User* owner = owner_of(tables);
  if (!owner)
    return wait("Unschedulable", "the cluster does not know its root yet: any command of his tells it");
  PodSite site;
  site.user = owner->id;
  site.namespaces = [&](const json::value& selector) { return namespaces_of(tables, selector); };
  site.claims = std::move(claims->paths);
  site.claim_bytes = std::move(claims->bytes);
  site.volume_nodes = std::move(claims->nodes);
  site.name_servers = name_servers_of(tables);
  if (tables.account(ns))
    site.account = ns;
  if (const std::string priority = text_in(spec, "priorityClassName"); tables.qos_named(priority))
    site.qos = priority;
  constexpr std::int64_t kNiceMost = 1'000'000'000;
  site.nice = static_cast<std::int32_t>(
      -std::clamp<std::int64_t>(integer_in(spec, "priority").value_or(0), -kNiceMost, kNiceMost));
  JobSpec job = TRY(job_of_pod(tree, site));
  // Nobody has looked whether there is room: the node itself does, when the pod comes.
  if (const Node* node = tables.node(text_in(spec, "nodeName")); node && node->link == NodeLink::kUp)
    if (NodeRefusal refusal = refused_by_node(tables, *node, tree, job.groups.get().front()); !refusal.reason.empty())
      return fail(std::move(refusal));
  if (std::string why = refused_by_all(tables, job.groups.get().front()); !why.empty())
    return wait("Unschedulable", std::move(why));
  drop_scheduled(tree);
  Object object = object_of(kPods, std::move(tree));
  object.shows = {{.kind = Kind::kJob}, {.kind = Kind::kTask}};
  SubmitJob ask;
  ask.spec = std::make_shared<const JobSpec>(std::move(job));
  ask.objects.push_back(std::move(object));
  return PodWork{std::move(ask), {}};
}

Object disrupted(const Object& pod, const std::string& time, const char* reason, const std::string& message) {
  json::object body = body_of(pod);
  json::value& status = body["status"];
  if (!status.is_object())
    status.emplace_object();
  json::array conditions;
  for (const json::value& one : list_in(status, "conditions"))
    if (text_in(one, "type") != "DisruptionTarget")
      conditions.push_back(one);
  conditions.push_back({{"type", "DisruptionTarget"},
                        {"status", "True"},
                        {"lastProbeTime", nullptr},
                        {"lastTransitionTime", time},
                        {"reason", reason},
                        {"message", message}});
  status.as_object()["conditions"] = std::move(conditions);
  return with_body(pod, body);
}

Object with_grace(const Object& pod, std::int64_t seconds) {
  json::object body = body_of(pod);
  body["metadata"].as_object()["deletionGracePeriodSeconds"] = seconds;
  return with_body(pod, body);
}

json::object pod_as_shown(const Tables& tables, const Object& pod) {
  json::object tree = tree_of(pod, {"v1", "Pod"}, wall_offset_of(tables));
  const PodRecords records = records_of_pod(tables, pod);
  show_pod(tree, pod, records, records.job ? who_cancelled(tables, *records.job) : std::string(),
           wall_offset_of(tables));
  return tree;
}

}  // namespace lockstep::kube
