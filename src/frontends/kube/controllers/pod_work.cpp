#include "frontends/kube/controllers/pod_work.h"

#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/node_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_placement.h"
#include "frontends/kube/kinds/pod_terms.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/store/stored_object.h"
#include "model/bounds.h"
#include "model/job.h"
#include "rules/labels.h"

namespace lockstep::kube {

namespace {

constexpr const char* kScheduler = "default-scheduler";
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
          const std::string* value = labels ? label_of(*labels, key) : nullptr;
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

// Root. Null: the cluster does not know them yet.
const User* owner_of(const Tables& tables) {
  if (const User* root = tables.user("local", 0))
    return root;
  // A cluster that a user has started for themselves runs their work only.
  const auto first = tables.users.begin();
  return first == tables.users.end() ? nullptr : first->second.get();
}

// Where the volumes of claims lie. Error: why the pod cannot be placed yet.
Result<std::map<std::string, std::string>> claims_of(const Tables& tables, const json::object& pod) {
  std::map<std::string, std::string> out;
  const std::string ns = text_in(part(pod, "metadata"), "namespace");
  for (const json::value& volume : list_in(spec_of(pod), "volumes")) {
    const std::string claim = text_in(part(volume, "persistentVolumeClaim"), "claimName");
    if (claim.empty())
      continue;
    const auto object = find(tables, "persistentvolumeclaims", ns, claim);
    if (!object)
      return Error{Errc::kUnavailable, format("persistentvolumeclaim \"{}\" not found", claim), {}};
    const std::string name = text_in(part(json::parse(object->body), "spec"), "volumeName");
    const auto bound = name.empty() ? nullptr : find(tables, "persistentvolumes", "", name);
    if (!bound)
      return Error{Errc::kUnavailable, "pod has unbound immediate PersistentVolumeClaims", {}};
    const json::value body = json::parse(bound->body);
    std::string path = text_in(part(part(body, "spec"), "hostPath"), "path");
    if (path.empty())
      path = text_in(part(part(body, "spec"), "local"), "path");
    if (path.empty())
      return Error{
          Errc::kUnavailable,
          format("persistentvolume \"{}\" is of a kind that nodes here do not mount: hostPath and local are", name),
          {}};
    out[text_in(volume, "name")] = path;
  }
  return out;
}

std::vector<std::string> name_servers_of(const Tables& tables) {
  const auto dns = find(tables, "services", "kube-system", "kube-dns");
  if (!dns)
    return {};
  const std::string address = text_in(part(json::parse(dns->body), "spec"), "clusterIP");
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
  if (text_in(spec, "nodeName").empty() && !scheduler.empty() && scheduler != kScheduler)
    return PodWork{PutObject{object_of(kPods, std::move(tree)), if_seq},
                   format("scheduler {} is to bind it", scheduler)};
  auto claims = claims_of(tables, tree);
  if (!claims.ok())
    return wait("Unschedulable", claims.error().message);
  const User* owner = owner_of(tables);
  if (!owner)
    return wait("Unschedulable", "the cluster does not know its root yet: any command of his tells it");
  PodSite site;
  site.user = owner->id;
  site.namespaces = [&](const json::value& selector) { return namespaces_of(tables, selector); };
  site.claims = std::move(*claims);
  site.name_servers = name_servers_of(tables);
  if (tables.account(ns))
    site.account = ns;
  if (const std::string priority = text_in(spec, "priorityClassName"); tables.qos_named(priority))
    site.qos = priority;
  constexpr std::int64_t kNiceMost = 1'000'000'000;
  site.nice = static_cast<std::int32_t>(
      -std::clamp<std::int64_t>(integer_in(spec, "priority").value_or(0), -kNiceMost, kNiceMost));
  JobSpec job = TRY(job_of_pod(tree, site));
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

Object with_grace(const Object& pod, std::int64_t seconds) {
  json::object body = body_of(pod);
  body["metadata"].as_object()["deletionGracePeriodSeconds"] = seconds;
  return with_body(pod, body);
}

json::object pod_as_shown(const Tables& tables, const Object& pod) {
  json::object tree = tree_of(pod, {"v1", "Pod"}, wall_offset_of(tables));
  show_pod(tree, pod, records_of_pod(tables, pod), {}, wall_offset_of(tables));
  return tree;
}

}  // namespace lockstep::kube
