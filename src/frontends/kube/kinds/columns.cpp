#include "frontends/kube/kinds/columns.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

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

std::string or_not(std::string words, const char* nothing) { return words.empty() ? nothing : words; }
std::string or_none(std::string words) { return or_not(std::move(words), "<none>"); }

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

const json::array& list_of(const Looked& of, std::string_view path) {
  static const json::array none;
  const json::value* value = at(of, path);
  return value && value->is_array() ? value->get_array() : none;
}

bool flag_of(const json::value& value, std::string_view key) {
  const json::value* found = member(value, key);
  return found && found->is_bool() && found->get_bool();
}

bool has_condition(const Looked& of, std::string_view type) {
  return std::ranges::any_of(list_of(of, "status.conditions"), [&](const json::value& one) {
    return word_in(one, "type") == type && word_in(one, "status") == "True";
  });
}

// What `kubectl get pods` says of one, as the real server's printer puts it together.
struct PodLine {
  std::size_t ready = 0, containers = 0;
  std::int64_t restarts = 0;
  std::string reason;
  std::optional<WallTime> restarted;  // last
};

class PodPrinter {
 public:
  explicit PodPrinter(const Looked& of) : of_(of) {
    line_.reason = text(of, "status.reason").empty() ? text(of, "status.phase") : text(of, "status.reason");
    line_.containers = list_of(of, "spec.containers").size();
    for (const json::value& one : list_of(of, "status.conditions"))
      if (word_in(one, "type") == "PodScheduled" && word_in(one, "reason") == "SchedulingGated")
        line_.reason = "SchedulingGated";
    for (const json::value& one : list_of(of, "spec.initContainers"))
      if (word_in(one, "restartPolicy") == "Always") {
        sidecars_.insert(word_in(one, "name"));
        ++line_.containers;
      }
    if (!look_at_beginning() || has_condition(of, "Initialized"))
      look_at_containers();
    const std::string phase = text(of, "status.phase");
    if (at(of, "metadata.deletionTimestamp") && phase != "Succeeded" && phase != "Failed")
      line_.reason = text(of, "status.reason") == "NodeLost" ? "Unknown" : "Terminating";
    if (line_.reason.empty())
      line_.reason = "Unknown";
  }
  const PodLine& line() const { return line_; }

 private:
  static const json::value* state_of(const json::value& status, const char* which) {
    const json::value* state = member(status, "state");
    const json::value* found = state ? member(*state, which) : nullptr;
    return found && found->is_object() ? found : nullptr;
  }
  static std::string end_words(const json::value& ended) {
    if (const std::string reason = word_in(ended, "reason"); !reason.empty())
      return reason;
    const std::string signal = number_in(ended, "signal");
    return signal.empty() || signal == "0" ? "ExitCode:" + number_in(ended, "exitCode") : "Signal:" + signal;
  }

  std::int64_t count_restarts(const json::value& status) {
    if (const json::value* last = member(status, "lastState"))
      if (const json::value* ended = member(*last, "terminated"))
        if (const auto when = parse_timestamp(word_in(*ended, "finishedAt"));
            when && (!line_.restarted || when->us > line_.restarted->us))
          line_.restarted = *when;
    const json::value* count = member(status, "restartCount");
    return count && is_number(*count) ? static_cast<std::int64_t>(number_of(*count)) : 0;
  }

  // True: it has not begun yet.
  bool look_at_beginning() {
    std::size_t at_which = 0;
    for (const json::value& one : list_of(of_, "status.initContainerStatuses")) {
      const std::int64_t restarts = count_restarts(one);
      line_.restarts += restarts;
      const bool sidecar = sidecars_.contains(word_in(one, "name"));
      if (sidecar)
        of_sidecars_ += restarts;
      const json::value *ended = state_of(one, "terminated"), *waits = state_of(one, "waiting");
      const std::string waiting = waits ? word_in(*waits, "reason") : "";
      if (ended && number_in(*ended, "exitCode") == "0") {
        ++at_which;
        continue;
      }
      if (sidecar && flag_of(one, "started")) {
        line_.ready += flag_of(one, "ready");
        ++at_which;
        continue;
      }
      if (ended)
        line_.reason = "Init:" + end_words(*ended);
      else if (!waiting.empty() && waiting != "PodInitializing")
        line_.reason = "Init:" + waiting;
      else
        line_.reason = format("Init:{}/{}", at_which, list_of(of_, "spec.initContainers").size());
      return true;
    }
    return false;
  }

  void look_at_containers() {
    line_.restarts = of_sidecars_;
    bool runs = false;
    const json::array& all = list_of(of_, "status.containerStatuses");
    for (std::size_t i = all.size(); i-- > 0;) {
      const json::value& one = all[i];
      line_.restarts += count_restarts(one);
      const json::value *ended = state_of(one, "terminated"), *waits = state_of(one, "waiting");
      if (waits && !word_in(*waits, "reason").empty()) {
        line_.reason = word_in(*waits, "reason");
      } else if (ended) {
        line_.reason = end_words(*ended);
      } else if (flag_of(one, "ready") && state_of(one, "running")) {
        runs = true;
        ++line_.ready;
      }
    }
    if (line_.reason == "Completed" && runs)
      line_.reason = has_condition(of_, "Ready") ? "Running" : "NotReady";
  }

  const Looked& of_;
  PodLine line_;
  std::set<std::string> sidecars_;
  std::int64_t of_sidecars_ = 0;
};

json::value pod_ready(const Looked& of) {
  const PodPrinter printer(of);
  return said(format("{}/{}", printer.line().ready, printer.line().containers));
}

std::string pod_restarts(const Looked& of) {
  const PodPrinter printer(of);
  const PodLine& line = printer.line();
  if (line.restarts == 0 || !line.restarted)
    return std::to_string(line.restarts);
  return format("{} ({} ago)", line.restarts, age_text(Duration{of.now.us - line.restarted->us}));
}

std::string pod_reason(const Looked& of) { return PodPrinter(of).line().reason; }

std::string readiness_gates(const Looked& of) {
  const json::array& gates = list_of(of, "spec.readinessGates");
  if (gates.empty())
    return "<none>";
  const auto open = std::ranges::count_if(
      gates, [&](const json::value& one) { return has_condition(of, word_in(one, "conditionType")); });
  return format("{}/{}", open, gates.size());
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

// By what address it is reached from outside.
std::string external_address(const Looked& of) {
  const std::string type = text(of, "spec.type");
  if (type == "ExternalName")
    return or_none(text(of, "spec.externalName"));
  std::string out;
  const auto add = [&](const std::string& word) {
    if (!word.empty())
      out += (out.empty() ? "" : ",") + word;
  };
  if (type == "LoadBalancer")
    for (const json::value& one : list_of(of, "status.loadBalancer.ingress"))
      add(word_in(one, "ip").empty() ? word_in(one, "hostname") : word_in(one, "ip"));
  for (const json::value& one : list_of(of, "spec.externalIPs")) add(std::string(text_of(one)));
  return !out.empty() ? out : type == "LoadBalancer" ? "<pending>" : "<none>";
}

// "RWO,RWX": how a volume may be mounted.
std::string mount_modes(const json::array& modes) {
  static const std::map<std::string_view, const char*> kShort{
      {"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}};
  std::string out;
  for (const json::value& one : modes)
    if (const auto known = kShort.find(text_of(one)); known != kShort.end())
      out += (out.empty() ? "" : ",") + std::string(known->second);
  return out;
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
  for (const char* how : {"Complete", "Failed"})
    if (has_condition(of, how))
      return how;
  if (at(of, "metadata.deletionTimestamp"))
    return "Terminating";
  for (const char* how : {"Suspended", "FailureTarget", "SuccessCriteriaMet"})
    if (has_condition(of, how))
      return how;
  return "Running";
}

std::string completions(const Looked& of) {
  const std::int64_t done = number(of, "status.succeeded");
  if (const json::value* wanted = at(of, "spec.completions"); wanted && is_number(*wanted))
    return format("{}/{}", done, number_text(*wanted));
  const std::int64_t parallel = number(of, "spec.parallelism");
  return parallel > 1 ? format("{}/1 of {}", done, parallel) : format("{}/1", done);
}

Column column(const char* name, const char* type = "string", int priority = 0) {
  return {name, type, std::string_view(name) == "Name" ? "name" : "", "", priority};
}

// Of a metric that is none of a resource's: nothing here measures those.
std::string other_target(const json::value& metric) {
  const std::string type = word_in(metric, "type");
  const json::value* source = member(metric, lower(type));
  const json::value* target = source ? member(*source, "target") : nullptr;
  if (!target)
    return "<unknown type>";
  const std::string average = word_in(*target, "averageValue");
  if (type == "Pods")
    return "<unknown>/" + average;
  return "<unknown>/" + (average.empty() ? word_in(*target, "value") : average + " (avg)");
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
      out += other_target(metric);
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
  put("pods", {shown("Ready", pod_ready), made("Status", pod_reason), made("Restarts", pod_restarts)}, true,
      {words("IP", "status.podIP", 1), words("Node", "spec.nodeName", 1),
       words("Nominated Node", "status.nominatedNodeName", 1), made("Readiness Gates", readiness_gates, 1)});
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
      {words("Type", "spec.type"), words("Cluster-IP", "spec.clusterIP"), made("External-IP", external_address),
       made("Port(s)", service_ports)},
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
      {shown("Ready", ratio("status.readyReplicas", "spec.replicas")),
       shown("Up-to-date", number_at("status.updatedReplicas")),
       shown("Available", number_at("status.availableReplicas"))},
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
  put("jobs.batch", {made("Status", job_status), made("Completions", completions), made("Duration", job_duration)},
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
      true,
      {shown("Containers", containers_at(of_cron), 1), shown("Images", images_at(of_cron), 1),
       shown("Selector", selector_at("spec.jobTemplate.spec.selector"), 1)});
  const auto plain = [](const char* name, std::string path, int priority = 0) {  // nothing where there is nothing
    return made(
        name, [path = std::move(path)](const Looked& of) { return text(of, path); }, priority);
  };
  const auto attributes = made("VolumeAttributesClass", [](const Looked& of) {
    const std::string name = text(of, "spec.volumeAttributesClassName");
    return name.empty() ? std::string("<unset>") : name;
  });
  const auto mode = made(
      "VolumeMode",
      [](const Looked& of) {
        const std::string has = text(of, "spec.volumeMode");
        return has.empty() ? std::string("<unset>") : has;
      },
      1);
  put("persistentvolumeclaims",
      {made("Status",
            [](const Looked& of) {
              return at(of, "metadata.deletionTimestamp") ? std::string("Terminating") : text(of, "status.phase");
            }),
       plain("Volume", "spec.volumeName"),
       made("Capacity",
            [](const Looked& of) {
              const std::string size = text(of, "status.capacity.storage");
              return text(of, "spec.volumeName").empty() ? std::string() : size.empty() ? "0" : size;
            }),
       made("Access Modes",
            [](const Looked& of) {
              return text(of, "spec.volumeName").empty() ? std::string()
                                                         : mount_modes(list_of(of, "status.accessModes"));
            }),
       plain("StorageClass", "spec.storageClassName"), attributes},
      true, {mode});
  put("persistentvolumes",
      {plain("Capacity", "spec.capacity.storage"),
       made("Access Modes", [](const Looked& of) { return mount_modes(list_of(of, "spec.accessModes")); }),
       plain("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
       made("Status",
            [](const Looked& of) {
              return at(of, "metadata.deletionTimestamp") ? std::string("Terminating") : text(of, "status.phase");
            }),
       made("Claim",
            [](const Looked& of) {
              const std::string name = text(of, "spec.claimRef.name");
              return name.empty() ? name : text(of, "spec.claimRef.namespace") + "/" + name;
            }),
       plain("StorageClass", "spec.storageClassName"), attributes, plain("Reason", "status.reason")},
      true, {mode});
  put("storageclasses.storage.k8s.io", {words("Provisioner", "provisioner"), words("ReclaimPolicy", "reclaimPolicy"),
                                        words("VolumeBindingMode", "volumeBindingMode"),
                                        shown("AllowVolumeExpansion", [](const Looked& of) -> json::value {
                                          return text(of, "allowVolumeExpansion") == "true";
                                        })});
  put("events",
      {shown("Last Seen", age_at("lastTimestamp")), words("Type", "type"), words("Reason", "reason"),
       made("Object",
            [](const Looked& of) {
              return lower(text(of, "involvedObject.kind")) + "/" + text(of, "involvedObject.name");
            }),
       words("Message", "message")},
      false);
  put("roles.rbac.authorization.k8s.io", {Shown{column("Created At", "date"), words_at("metadata.creationTimestamp")}},
      false);
  put("clusterroles.rbac.authorization.k8s.io",
      {Shown{column("Created At", "date"), words_at("metadata.creationTimestamp")}}, false);
  const Rows role{
      made("Role", [](const Looked& of) { return text(of, "roleRef.kind") + "/" + text(of, "roleRef.name"); })};
  const auto subjects = [](const char* name, const char* kind) {
    return made(
        name,
        [kind](const Looked& of) {
          std::string out;
          for (const json::value& one : list_of(of, "subjects"))
            if (word_in(one, "kind") == kind)
              out += (out.empty() ? "" : ", ") +
                     (std::string_view(kind) == "ServiceAccount" ? word_in(one, "namespace") + "/" : std::string()) +
                     word_in(one, "name");
          return out;
        },
        1);
  };
  const Rows whom{subjects("Users", "User"), subjects("Groups", "Group"),
                  subjects("ServiceAccounts", "ServiceAccount")};
  put("rolebindings.rbac.authorization.k8s.io", role, true, whom);
  put("clusterrolebindings.rbac.authorization.k8s.io", role, true, whom);
  put("limitranges", {Shown{column("Created At", "date"), words_at("metadata.creationTimestamp")}}, false);
  const auto amounts = [](const char* name, bool limits) {
    return made(name, [limits](const Looked& of) {
      std::string all;
      const json::value *hard = at(of, "spec.hard"), *used = at(of, "status.used");
      std::map<std::string, std::string> sorted;
      if (hard && hard->is_object())
        for (const auto& [resource, bound] : hard->get_object())
          if (std::string_view(resource).starts_with("limits.") == limits)
            sorted.emplace(std::string(resource), std::string(text_of(bound)));
      for (const auto& [resource, bound] : sorted) {
        const std::string has = used ? word_in(*used, resource) : "";
        all += format("{}{}: {}/{}", all.empty() ? "" : ", ", resource, has.empty() ? "0" : has, bound);
      }
      return all;
    });
  };
  put("resourcequotas", {amounts("Request", false), amounts("Limit", true)});
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
       made("Targets", targets_of), shown("MinPods", number_at("spec.minReplicas")),
       shown("MaxPods", number_at("spec.maxReplicas")), shown("Replicas", number_at("status.currentReplicas"))});
  put("apiservices.apiregistration.k8s.io", {made("Service", service_of_api), made("Available", available)});
  put("poddisruptionbudgets.policy",
      {made("Min Available", [](const Looked& of) { return or_not(text(of, "spec.minAvailable"), "N/A"); }),
       made("Max Unavailable", [](const Looked& of) { return or_not(text(of, "spec.maxUnavailable"), "N/A"); }),
       count("Allowed Disruptions", "status.disruptionsAllowed")});
  put("leases.coordination.k8s.io", {plain("Holder", "spec.holderIdentity")});
  put("ingresses.networking.k8s.io",
      {words("Class", "spec.ingressClassName"),
       made("Hosts",
            [](const Looked& of) {
              const std::string hosts = joined(&list_of(of, "spec.rules"), "host");
              return hosts.empty() ? std::string("*") : hosts;
            }),
       made("Address",
            [](const Looked& of) {
              std::string out;
              for (const json::value& one : list_of(of, "status.loadBalancer.ingress"))
                out += (out.empty() ? "" : ",") + or_not(word_in(one, "ip"), word_in(one, "hostname").c_str());
              return out;
            }),
       made("Ports",
            [](const Looked& of) { return std::string(list_of(of, "spec.tls").empty() ? "80" : "80, 443"); })});
  put("networkpolicies.networking.k8s.io", {shown("Pod-Selector", selector_at("spec.podSelector"))});
  put("ingressclasses.networking.k8s.io",
      {words("Controller", "spec.controller"), made("Parameters", [](const Looked& of) {
         const std::string group = text(of, "spec.parameters.apiGroup"), kind = text(of, "spec.parameters.kind");
         if (kind.empty())
           return std::string("<none>");
         return kind + (group.empty() ? "" : "." + group) + "/" + text(of, "spec.parameters.name");
       })});
  put("servicecidrs.networking.k8s.io", {shown("CIDRs", list_at("spec.cidrs"))});
  put("ipaddresses.networking.k8s.io", {made("ParentRef", [](const Looked& of) {
        const std::string group = text(of, "spec.parentRef.group"), ns = text(of, "spec.parentRef.namespace");
        return text(of, "spec.parentRef.resource") + (group.empty() ? "" : "." + group) + "/" +
               (ns.empty() ? "" : ns + "/") + text(of, "spec.parentRef.name");
      })});
  put("podtemplates",
      {shown("Containers", containers_at("template.spec")), shown("Images", images_at("template.spec")),
       shown("Pod Labels", selector_at("template.metadata.labels"))},
      false);
  put("runtimeclasses.node.k8s.io", {plain("Handler", "handler")});
  const auto yes_or_no = [](const char* name, std::string path) {
    return Shown{column(name, "boolean"),
                 [path = std::move(path)](const Looked& of) -> json::value { return text(of, path) == "true"; }};
  };
  put("csidrivers.storage.k8s.io",
      {yes_or_no("AttachRequired", "spec.attachRequired"), yes_or_no("PodInfoOnMount", "spec.podInfoOnMount"),
       yes_or_no("StorageCapacity", "spec.storageCapacity"),
       made("TokenRequests",
            [](const Looked& of) {
              const std::string all = joined(&list_of(of, "spec.tokenRequests"), "audience");
              return or_not(all, "<unset>");
            }),
       yes_or_no("RequiresRepublish", "spec.requiresRepublish"), shown("Modes", list_at("spec.volumeLifecycleModes"))});
  put("csinodes.storage.k8s.io", {{column("Drivers", "integer"), size_at("spec.drivers")}});
  put("volumeattachments.storage.k8s.io",
      {plain("Attacher", "spec.attacher"), plain("PV", "spec.source.persistentVolumeName"),
       plain("Node", "spec.nodeName"), yes_or_no("Attached", "status.attached")});
  for (const char* type : {"mutatingwebhookconfigurations.admissionregistration.k8s.io",
                           "validatingwebhookconfigurations.admissionregistration.k8s.io"})
    put(type, {{column("Webhooks", "integer"), size_at("webhooks")}});
  put("validatingadmissionpolicies.admissionregistration.k8s.io",
      {{column("Validations", "integer"), size_at("spec.validations")}, made("ParamKind", [](const Looked& of) {
         const std::string kind = text(of, "spec.paramKind.kind");
         return kind.empty() ? std::string("<unset>") : text(of, "spec.paramKind.apiVersion") + "/" + kind;
       })});
  put("validatingadmissionpolicybindings.admissionregistration.k8s.io",
      {plain("PolicyName", "spec.policyName"), made("ParamRef", [](const Looked& of) {
         const std::string ns = text(of, "spec.paramRef.namespace"), name = text(of, "spec.paramRef.name");
         if (!at(of, "spec.paramRef"))
           return std::string("<unset>");
         return (ns.empty() ? "*" : ns) + "/" + (name.empty() ? "*" : name);
       })});
  put("flowschemas.flowcontrol.apiserver.k8s.io",
      {plain("PriorityLevel", "spec.priorityLevelConfiguration.name"),
       plain("MatchingPrecedence", "spec.matchingPrecedence"),
       words("DistinguisherMethod", "spec.distinguisherMethod.type")},
      true, {made("MissingPL", [](const Looked& of) {
        for (const json::value& one : list_of(of, "status.conditions"))
          if (word_in(one, "type") == "Dangling")
            return word_in(one, "status");
        return std::string("?");
      })});
  put("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
      {plain("Type", "spec.type"), words("NominalConcurrencyShares", "spec.limited.nominalConcurrencyShares"),
       words("Queues", "spec.limited.limitResponse.queuing.queues"),
       words("HandSize", "spec.limited.limitResponse.queuing.handSize"),
       words("QueueLengthLimit", "spec.limited.limitResponse.queuing.queueLengthLimit")});
  put("certificatesigningrequests.certificates.k8s.io", {}, true,
      {words("SignerName", "spec.signerName"), plain("Requestor", "spec.username"),
       made("RequestedDuration",
            [](const Looked& of) {
              const json::value* seconds = at(of, "spec.expirationSeconds");
              return seconds && is_number(*seconds)
                         ? age_text(Duration{number(of, "spec.expirationSeconds") * 1'000'000})
                         : std::string("<none>");
            }),
       made("Condition", [](const Looked& of) {
         std::string out;
         for (const char* which : {"Approved", "Denied", "Failed"})
           if (has_condition(of, which))
             out += (out.empty() ? "" : ",") + std::string(which);
         if (!text(of, "status.certificate").empty())
           out += (out.empty() ? "" : ",") + std::string("Issued");
         return out.empty() ? std::string("Pending") : out;
       })});
  put("resourceclaims.resource.k8s.io", {made("State", [](const Looked& of) {
        std::string out;
        const auto add = [&](const char* word) { out += (out.empty() ? "" : ",") + std::string(word); };
        if (at(of, "metadata.deletionTimestamp"))
          add("deleted");
        if (!at(of, "status.allocation"))
          add("pending");
        else
          add("allocated");
        if (!list_of(of, "status.reservedFor").empty())
          add("reserved");
        return out;
      })});
  put("resourceslices.resource.k8s.io",
      {words("Node", "spec.nodeName"), plain("Driver", "spec.driver"), plain("Pool", "spec.pool.name")});
  put("customresourcedefinitions.apiextensions.k8s.io",
      {Shown{column("Created At", "date"), words_at("metadata.creationTimestamp")}}, false);
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
