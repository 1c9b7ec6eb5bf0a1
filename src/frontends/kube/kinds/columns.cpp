#include "frontends/kube/kinds/columns.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "frontends/kube/machinery/timestamps.h"

namespace lockstep::kube {

namespace {

struct Looked {
  const json::object& tree;
  WallTime now;
};
using CellOf = std::function<json::value(const Looked&)>;

struct Shown {
  Column column;
  CellOf cell;
};

const json::value* at(const json::value& value, std::string_view path) {
  const json::value* found = &value;
  while (found && !path.empty()) {
    const auto dot = path.find('.');
    found = member(*found, path.substr(0, dot));
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  return found;
}

const json::value* at(const Looked& of, std::string_view path) {
  const auto dot = path.find('.');
  const json::value* first = of.tree.if_contains(path.substr(0, dot));
  return !first || dot == path.npos ? first : at(*first, path.substr(dot + 1));
}

std::string text(const Looked& of, std::string_view path) {
  const json::value* value = at(of, path);
  if (!value)
    return {};
  if (value->is_bool())
    return value->get_bool() ? "true" : "false";
  return is_number(*value) ? number_text(*value) : std::string(text_of(*value));
}

std::int64_t number(const Looked& of, std::string_view path) {
  const json::value* value = at(of, path);
  return value && is_number(*value) ? static_cast<std::int64_t>(number_of(*value)) : 0;
}

std::string word_in(const json::value& value, std::string_view name) {
  const json::value* found = member(value, name);
  return found ? std::string(text_of(*found)) : std::string();
}

std::string number_in(const json::value& value, std::string_view name) {
  const json::value* found = member(value, name);
  return found && is_number(*found) ? number_text(*found) : std::string();
}

json::value said(const std::string& words) { return json::value(json::string_view(words)); }

std::string or_none(std::string words) { return words.empty() ? "<none>" : words; }

CellOf words_at(std::string path) {
  return [path = std::move(path)](const Looked& of) -> json::value { return said(or_none(text(of, path))); };
}
CellOf number_at(std::string path) {
  return [path = std::move(path)](const Looked& of) -> json::value { return number(of, path); };
}
CellOf size_at(std::string path) {
  return [path = std::move(path)](const Looked& of) -> json::value {
    const json::value* value = at(of, path);
    return value && value->is_object()  ? value->get_object().size()
           : value && value->is_array() ? value->get_array().size()
                                        : 0;
  };
}
CellOf age_at(std::string path) {
  return [path = std::move(path)](const Looked& of) -> json::value { return said(since_text(at(of, path), of.now)); };
}

std::string joined(const json::array* list, std::string_view field) {
  std::string out;
  if (list)
    for (const json::value& one : *list) {
      const json::value* value = field.empty() ? &one : member(one, field);
      if (value)
        out += (out.empty() ? "" : ",") + (is_number(*value) ? number_text(*value) : std::string(text_of(*value)));
    }
  return out;
}

CellOf list_at(std::string path, std::string field = {}) {
  return [path = std::move(path), field = std::move(field)](const Looked& of) -> json::value {
    const json::value* value = at(of, path);
    return said(or_none(joined(value ? value->if_array() : nullptr, field)));
  };
}

// Of a template's containers.
CellOf containers_at(std::string path) { return list_at(path + ".containers", "name"); }
CellOf images_at(std::string path) { return list_at(path + ".containers", "image"); }

CellOf selector_at(std::string path) {
  return [path = std::move(path)](const Looked& of) -> json::value {
    const json::value* value = at(of, path);
    if (!value)
      return "<none>";
    const bool plain = value->is_object() && !value->get_object().contains("matchLabels") &&
                       !value->get_object().contains("matchExpressions");
    if (plain)
      return said(or_none(select_labels(value->get_object()).text()));
    const auto read = read_label_selector(*value);
    return said(read.ok() ? or_none(read->text()) : "<error>");
  };
}

CellOf ratio(std::string part, std::string whole) {
  return [part = std::move(part), whole = std::move(whole)](const Looked& of) -> json::value {
    return said(format("{}/{}", number(of, part), number(of, whole)));
  };
}

// --- pods ---

json::value pod_ready(const Looked& of) {
  std::size_t ready = 0;
  if (const json::value* statuses = at(of, "status.containerStatuses"); statuses && statuses->is_array())
    for (const json::value& one : statuses->get_array()) {
      const json::value* is = member(one, "ready");
      ready += is && is->is_bool() && is->get_bool();
    }
  const json::value* containers = at(of, "spec.containers");
  return said(format("{}/{}", ready, containers && containers->is_array() ? containers->get_array().size() : 0));
}

std::int64_t pod_restarts(const Looked& of) {
  std::int64_t restarts = 0;
  if (const json::value* statuses = at(of, "status.containerStatuses"); statuses && statuses->is_array())
    for (const json::value& one : statuses->get_array())
      if (const json::value* count = member(one, "restartCount"); count && is_number(*count))
        restarts += static_cast<std::int64_t>(number_of(*count));
  return restarts;
}

// What holds it up or ended it, in one word.
std::string pod_reason(const Looked& of) {
  std::string reason = text(of, "status.reason");
  if (reason.empty())
    reason = text(of, "status.phase");
  const json::value* statuses = at(of, "status.containerStatuses");
  if (statuses && statuses->is_array())
    for (const json::value& one : statuses->get_array()) {
      const json::value* state = member(one, "state");
      for (const char* which : {"waiting", "terminated"})
        if (const json::value* in = state ? member(*state, which) : nullptr)
          if (const json::value* word = member(*in, "reason"); word && !text_of(*word).empty())
            reason = text_of(*word);
    }
  if (at(of, "metadata.deletionTimestamp"))
    reason = text(of, "status.reason") == "NodeLost" ? "Unknown" : "Terminating";
  return reason.empty() ? "Unknown" : reason;
}

// --- nodes ---

std::string node_status(const Looked& of) {
  std::string out = "Unknown";
  if (const json::value* conditions = at(of, "status.conditions"); conditions && conditions->is_array())
    for (const json::value& one : conditions->get_array())
      if (const json::value* type = member(one, "type"); type && text_of(*type) == "Ready")
        out = word_in(one, "status") == "True" ? "Ready" : "NotReady";
  return text(of, "spec.unschedulable") == "true" ? out + ",SchedulingDisabled" : out;
}

std::string node_roles(const Looked& of) {
  constexpr std::string_view kRole = "node-role.kubernetes.io/";
  std::string out;
  if (const json::value* labels = at(of, "metadata.labels"); labels && labels->is_object())
    for (const auto& [key, value] : labels->get_object())
      if (std::string_view(key).starts_with(kRole))
        (out += out.empty() ? "" : ",") += std::string_view(key).substr(kRole.size());
  return or_none(out);
}

std::string node_address(const Looked& of, std::string_view wanted) {
  if (const json::value* addresses = at(of, "status.addresses"); addresses && addresses->is_array())
    for (const json::value& one : addresses->get_array())
      if (word_in(one, "type") == wanted)
        return word_in(one, "address");
  return "<none>";
}

// --- services ---

std::string service_ports(const Looked& of) {
  std::string out;
  if (const json::value* ports = at(of, "spec.ports"); ports && ports->is_array())
    for (const json::value& one : ports->get_array()) {
      const json::value* port = member(one, "port");
      const json::value* node = member(one, "nodePort");
      const json::value* protocol = member(one, "protocol");
      out += out.empty() ? "" : ",";
      out += port && is_number(*port) ? number_text(*port) : "";
      if (node && is_number(*node) && number_of(*node) > 0)
        out += ":" + number_text(*node);
      out += "/" + (protocol ? std::string(text_of(*protocol)) : std::string("TCP"));
    }
  return or_none(out);
}

std::string endpoint_words(const Looked& of) {
  std::string out;
  const json::value* subsets = at(of, "subsets");
  if (subsets && subsets->is_array())
    for (const json::value& subset : subsets->get_array())
      if (const json::array* addresses = member_array(subset, "addresses"))
        for (const json::value& address : *addresses) {
          const json::array* ports = member_array(subset, "ports");
          out += (out.empty() ? "" : ",") + word_in(address, "ip");
          if (ports && !ports->empty())
            out += ":" + number_in(ports->front(), "port");
        }
  return or_none(out);
}

std::string job_duration(const Looked& of) {
  const json::value* started = at(of, "status.startTime");
  const json::value* ended = at(of, "status.completionTime");
  const auto from = started ? parse_timestamp(text_of(*started)) : std::nullopt;
  if (!from)
    return "";
  const auto to = ended ? parse_timestamp(text_of(*ended)) : std::nullopt;
  return age_text(Duration{(to ? *to : of.now).us - from->us});
}

std::string job_status(const Looked& of) {
  std::string out = "Running";
  if (const json::value* conditions = at(of, "status.conditions"); conditions && conditions->is_array())
    for (const json::value& one : conditions->get_array()) {
      const std::string type = word_in(one, "type");
      if (word_in(one, "status") == "True" && (type == "Complete" || type == "Failed" || type == "Suspended"))
        out = type;
    }
  return out;
}

Column column(const char* name, const char* type = "string", int priority = 0) {
  return {name, type, std::string_view(name) == "Name" ? "name" : "", "", priority};
}

// "cpu: 12%/50%, memory: <unknown>/1Gi" of an autoscaler, in the real server's words.
std::string targets_of(const Looked& of) {
  constexpr std::size_t kShown = 2;
  const json::value* metrics = at(of, "spec.metrics");
  const json::value* current = at(of, "status.currentMetrics");
  if (!metrics || !metrics->is_array() || metrics->get_array().empty())
    return "<none>";
  std::string out;
  std::size_t n = 0;
  for (const json::value& metric : metrics->get_array()) {
    if (n == kShown) {
      out += format(" + {} more...", metrics->get_array().size() - kShown);
      break;
    }
    const bool of_one = word_in(metric, "type") == "ContainerResource";
    const char* kind = of_one ? "containerResource" : word_in(metric, "type") == "Resource" ? "resource" : nullptr;
    const json::value* source = kind ? member(metric, kind) : nullptr;
    const json::value* target = source ? member(*source, "target") : nullptr;
    const json::value* told = current && current->is_array() && current->get_array().size() > n
                                  ? member(current->get_array()[n], kind ? kind : "")
                                  : nullptr;
    const json::value* now = told ? member(*told, "current") : nullptr;
    out += n++ > 0 ? ", " : "";
    if (!target) {
      out += "<unknown type>";
    } else if (const std::string average = word_in(*target, "averageValue"); !average.empty()) {
      out += format("{}: {}/{}", word_in(*source, "name"), now ? word_in(*now, "averageValue") : "<unknown>", average);
    } else {
      const std::string wanted = number_in(*target, "averageUtilization");
      const std::string is = now ? number_in(*now, "averageUtilization") : "";
      out += format("{}: {}/{}", word_in(*source, "name"), is.empty() ? "<unknown>" : is + "%",
                    wanted.empty() ? "<auto>" : wanted + "%");
    }
  }
  return out;
}

std::string service_of_api(const Looked& of) {
  const std::string name = text(of, "spec.service.name");
  return name.empty() ? "Local" : text(of, "spec.service.namespace") + "/" + name;
}

std::string available(const Looked& of) {
  if (const json::value* conditions = at(of, "status.conditions"); conditions && conditions->is_array())
    for (const json::value& one : conditions->get_array())
      if (word_in(one, "type") == "Available")
        return word_in(one, "status") == "True" ? "True"
                                                : format("{} ({})", word_in(one, "status"), word_in(one, "reason"));
  return "Unknown";
}

Shown name_column() {
  return {column("Name"), [](const Looked& of) -> json::value { return said(text(of, "metadata.name")); }};
}
Shown words(const char* name, std::string path, int priority = 0) {
  return {column(name, "string", priority), words_at(std::move(path))};
}
Shown count(const char* name, std::string path) { return {column(name, "integer"), number_at(std::move(path))}; }
Shown made(const char* name, std::function<std::string(const Looked&)> of, int priority = 0) {
  return {column(name, "string", priority),
          [of = std::move(of)](const Looked& looked) -> json::value { return said(of(looked)); }};
}
Shown shown(const char* name, CellOf cell, int priority = 0) {
  return {column(name, "string", priority), std::move(cell)};
}
Shown age() { return {column("Age"), age_at("metadata.creationTimestamp")}; }

using Rows = std::vector<Shown>;

std::map<std::string, Rows, std::less<>> make_rows() {
  std::map<std::string, Rows, std::less<>> out;
  const auto put = [&](const char* type, Rows rows, bool ages = true, Rows wide = {}) {
    rows.insert(rows.begin(), name_column());
    if (ages)
      rows.push_back(age());
    rows.insert(rows.end(), wide.begin(), wide.end());
    out.emplace(type, std::move(rows));
  };
  const std::string inside = "spec.template.spec";
  const Rows parts{shown("Containers", containers_at(inside), 1), shown("Images", images_at(inside), 1)};
  const auto with_selector = [&](Rows rows, const char* path = "spec.selector") {
    rows.push_back(shown("Selector", selector_at(path), 1));
    return rows;
  };
  put("pods",
      {shown("Ready", pod_ready),
       made("Status", pod_reason),
       {column("Restarts"), [](const Looked& of) -> json::value { return said(std::to_string(pod_restarts(of))); }}},
      true,
      {words("IP", "status.podIP", 1), words("Node", "spec.nodeName", 1),
       words("Nominated Node", "status.nominatedNodeName", 1),
       shown(
           "Readiness Gates", [](const Looked&) -> json::value { return "<none>"; }, 1)});
  put("nodes", {made("Status", node_status), made("Roles", node_roles)}, true,
      {words("Version", "status.nodeInfo.kubeletVersion"),
       made(
           "Internal-IP", [](const Looked& of) { return node_address(of, "InternalIP"); }, 1),
       made(
           "External-IP", [](const Looked& of) { return node_address(of, "ExternalIP"); }, 1),
       words("OS-Image", "status.nodeInfo.osImage", 1), words("Kernel-Version", "status.nodeInfo.kernelVersion", 1),
       words("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", 1)});
  put("jobs.lockstep.io",
      {words("Job-Name", "spec.name"), words("User", "spec.user"), words("State", "status.state"),
       words("Nodes", "status.nodes"), words("Reason", "status.reason")},
      true,
      {words("Namespace", "spec.namespace", 1), words("Account", "spec.account", 1),
       words("Partition", "spec.partition", 1), words("Expected-Start", "status.expectedStartTime", 1)});
  put("namespaces", {words("Status", "status.phase")});
  put("configmaps", {{column("Data"), [](const Looked& of) -> json::value {
                        return size_at("data")(of).to_number<std::int64_t>() +
                               size_at("binaryData")(of).to_number<std::int64_t>();
                      }}});
  put("secrets", {words("Type", "type"), {column("Data", "string"), size_at("data")}});
  put("serviceaccounts", {{column("Secrets", "string"), size_at("secrets")}});
  put("services",
      {words("Type", "spec.type"), words("Cluster-IP", "spec.clusterIP"),
       shown("External-IP", list_at("status.loadBalancer.ingress", "ip")), made("Port(s)", service_ports)},
      true, {shown("Selector", selector_at("spec.selector"), 1)});
  put("endpoints", {made("Endpoints", endpoint_words)});
  put("endpointslices.discovery.k8s.io", {words("AddressType", "addressType"), shown("Ports", list_at("ports", "port")),
                                          made("Endpoints", [](const Looked& of) {
                                            std::string all;
                                            if (const json::value* ends = at(of, "endpoints"); ends && ends->is_array())
                                              for (const json::value& one : ends->get_array())
                                                if (const std::string some = joined(member_array(one, "addresses"), "");
                                                    !some.empty())
                                                  all += (all.empty() ? "" : ",") + some;
                                            return all.empty() ? std::string("<unset>") : all;
                                          })});
  put("deployments.apps",
      {shown("Ready", ratio("status.readyReplicas", "spec.replicas")), count("Up-to-date", "status.updatedReplicas"),
       count("Available", "status.availableReplicas")},
      true, with_selector(parts));
  put("replicasets.apps",
      {count("Desired", "spec.replicas"), count("Current", "status.replicas"), count("Ready", "status.readyReplicas")},
      true, with_selector(parts));
  put("replicationcontrollers",
      {count("Desired", "spec.replicas"), count("Current", "status.replicas"), count("Ready", "status.readyReplicas")},
      true, with_selector(parts));
  put("statefulsets.apps", {shown("Ready", ratio("status.readyReplicas", "spec.replicas"))}, true, parts);
  put("daemonsets.apps",
      {count("Desired", "status.desiredNumberScheduled"), count("Current", "status.currentNumberScheduled"),
       count("Ready", "status.numberReady"), count("Up-to-date", "status.updatedNumberScheduled"),
       count("Available", "status.numberAvailable"),
       shown("Node Selector", selector_at("spec.template.spec.nodeSelector"))},
      true, with_selector(parts));
  put("jobs.batch",
      {made("Status", job_status), shown("Completions", ratio("status.succeeded", "spec.completions")),
       made("Duration", job_duration)},
      true, with_selector(parts));
  const std::string of_cron = "spec.jobTemplate.spec.template.spec";
  put("cronjobs.batch",
      {words("Schedule", "spec.schedule"),
       words("Timezone", "spec.timeZone"),
       {column("Suspend", "boolean"),
        [](const Looked& of) -> json::value { return text(of, "spec.suspend") == "true" ? "True" : "False"; }},
       {column("Active", "integer"), size_at("status.active")},
       shown("Last Schedule",
             [](const Looked& of) -> json::value {
               const json::value* last = at(of, "status.lastScheduleTime");
               return said(last ? since_text(last, of.now) : std::string("<none>"));
             })},
      true, {shown("Containers", containers_at(of_cron), 1), shown("Images", images_at(of_cron), 1)});
  put("persistentvolumeclaims",
      {words("Status", "status.phase"), words("Volume", "spec.volumeName"),
       words("Capacity", "status.capacity.storage"), shown("Access Modes", list_at("status.accessModes")),
       words("StorageClass", "spec.storageClassName")},
      true);
  put("persistentvolumes",
      {words("Capacity", "spec.capacity.storage"), shown("Access Modes", list_at("spec.accessModes")),
       words("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"), words("Status", "status.phase"),
       words("Claim", "spec.claimRef.name"), words("StorageClass", "spec.storageClassName")});
  put("storageclasses.storage.k8s.io",
      {words("Provisioner", "provisioner"), words("ReclaimPolicy", "reclaimPolicy"),
       words("VolumeBindingMode", "volumeBindingMode"), words("AllowVolumeExpansion", "allowVolumeExpansion")});
  put("events",
      {shown("Last Seen", age_at("lastTimestamp")), words("Type", "type"), words("Reason", "reason"),
       made("Object",
            [](const Looked& of) {
              return lower(text(of, "involvedObject.kind")) + "/" + text(of, "involvedObject.name");
            }),
       words("Message", "message")},
      false);
  put("roles.rbac.authorization.k8s.io", {words("Created At", "metadata.creationTimestamp")}, false);
  put("clusterroles.rbac.authorization.k8s.io", {words("Created At", "metadata.creationTimestamp")}, false);
  const Rows role{
      made("Role", [](const Looked& of) { return text(of, "roleRef.kind") + "/" + text(of, "roleRef.name"); })};
  put("rolebindings.rbac.authorization.k8s.io", role);
  put("clusterrolebindings.rbac.authorization.k8s.io", role);
  put("resourcequotas", {made("Request", [](const Looked& of) {
        std::string all;
        if (const json::value* hard = at(of, "status.hard"); hard && hard->is_object())
          for (const auto& [name, bound] : hard->get_object()) {
            const json::value* used = at(of, "status.used");
            const json::value* has = used ? member(*used, name) : nullptr;
            all += format("{}{}: {}/{}", all.empty() ? "" : ", ", std::string_view(name),
                          has ? text_of(*has) : std::string_view("0"), text_of(bound));
          }
        return all;
      })});
  put("priorityclasses.scheduling.k8s.io",
      {count("Value", "value"),
       {column("Global-Default", "boolean"),
        [](const Looked& of) -> json::value { return text(of, "globalDefault") == "true"; }}},
      true, {words("PreemptionPolicy", "preemptionPolicy")});
  put("horizontalpodautoscalers.autoscaling",
      {made("Reference",
            [](const Looked& of) {
              return text(of, "spec.scaleTargetRef.kind") + "/" + text(of, "spec.scaleTargetRef.name");
            }),
       made("Targets", targets_of), count("MinPods", "spec.minReplicas"), count("MaxPods", "spec.maxReplicas"),
       count("Replicas", "status.currentReplicas")});
  put("apiservices.apiregistration.k8s.io", {made("Service", service_of_api), made("Available", available)});
  put("poddisruptionbudgets.policy",
      {words("Min Available", "spec.minAvailable"), words("Max Unavailable", "spec.maxUnavailable"),
       count("Allowed Disruptions", "status.disruptionsAllowed")});
  put("leases.coordination.k8s.io", {words("Holder", "spec.holderIdentity")});
  put("ingresses.networking.k8s.io",
      {words("Class", "spec.ingressClassName"), shown("Hosts", list_at("spec.rules", "host")),
       shown("Address", list_at("status.loadBalancer.ingress", "ip"))});
  put("customresourcedefinitions.apiextensions.k8s.io", {words("Created At", "metadata.creationTimestamp")}, false);
  put("controllerrevisions.apps", {made("Controller",
                                        [](const Looked& of) {
                                          const json::value* owners = at(of, "metadata.ownerReferences");
                                          if (!owners || !owners->is_array() || owners->get_array().empty())
                                            return std::string("<none>");
                                          const json::value& owner = owners->get_array().front();
                                          return lower(word_in(owner, "kind")) + "/" + word_in(owner, "name");
                                        }),
                                   count("Revision", "revision")});
  put("", {});
  return out;
}

const Rows& rows_of(std::string_view type) {
  static const auto all = make_rows();
  const auto found = all.find(type);
  return found == all.end() ? all.at("") : found->second;
}

}  // namespace

const std::vector<Column>& columns_of(std::string_view type) {
  static std::map<const Rows*, std::vector<Column>> made;  // on the I/O thread alone
  const Rows& rows = rows_of(type);
  std::vector<Column>& out = made[&rows];
  if (out.empty())
    for (const auto& row : rows) out.push_back(row.column);
  return out;
}

json::array cells_of(std::string_view type, const json::object& tree, WallTime now) {
  json::array out;
  const Looked looked{tree, now};
  for (const auto& row : rows_of(type)) out.push_back(row.cell(looked));
  return out;
}

}  // namespace lockstep::kube
