// Sources: kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1; messages are those of
// k8s.io/kubernetes pkg/apis/core/validation.
#include "frontends/kube/kinds/container_checks.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

constexpr const char* kBadVariable =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
constexpr const char* kOneAtATime = "may not have more than one field specified at a time";

bool is_variable_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~' && c != '='; });
}

std::string after(std::string_view text, std::string_view prefix) { return std::string(text.substr(prefix.size())); }

// --- variables ---

void check_source(const Place& from) {
  const auto fault = [&](const char* what) { from.out().push_back(field_invalid(from.path(), json::value(""), what)); };
  std::size_t count = 0;
  for (const char* key : {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"})
    count += from[key].there();
  if (count == 0)
    fault("must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`");
  if (count > 1)
    fault(kOneAtATime);
  if (from["fieldRef"].there())
    check_shown_field(from["fieldRef"], true);
  if (from["resourceFieldRef"].there())
    check_shown_resource(from["resourceFieldRef"]);
  for (const char* key : {"configMapKeyRef", "secretKeyRef"})
    if (const Place ref = from[key]; ref.there()) {
      ref["name"].dns_subdomain();
      ref["key"].needed();
    }
}

void check_variables_of(const Place& container) {
  for (const Place& one : container["env"].each()) {
    const Place name = one["name"], from = one["valueFrom"];
    if (name.empty())
      name.required();
    else if (!is_variable_name(name.text()))
      name.invalid(kBadVariable);
    if (from.there() && !one["value"].empty())
      one.out().push_back(
          field_invalid(from.path(), json::value(""), "may not be specified when `value` is not empty"));
    else if (from.there())
      check_source(from);
  }
  const Place many = container["envFrom"];
  for (const Place& one : many.each()) {
    if (const Place prefix = one["prefix"]; !prefix.empty() && !is_variable_name(prefix.text()))
      prefix.invalid(kBadVariable);
    std::size_t count = 0;
    for (const char* key : {"configMapRef", "secretRef"})
      if (const Place ref = one[key]; ref.there()) {
        ++count;
        ref["name"].name();
      }
    if (count != 1)
      many.out().push_back(
          field_invalid(many.path(), json::value(""),
                        count == 0 ? "must specify one of: `configMapRef` or `secretRef`" : kOneAtATime));
  }
}

// --- ports ---

void check_port_names(const Place& container) {
  std::set<std::string> names;
  for (const Place& one : container["ports"].each())
    if (const Place name = one["name"];
        !name.empty() && port_name_faults(name.text()).empty() && !names.insert(name.text()).second)
      name.duplicate();
}

// --- probes and hooks ---

void check_http(const Place& get) {
  if (get["path"].empty())
    get["path"].required();
  get["port"].port_or_name();
  for (const Place& header : get["httpHeaders"].each())
    if (const std::string name = header["name"].text(); name.empty() || !std::ranges::all_of(name, [](char c) {
                                                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                                                 (c >= '0' && c <= '9') || c == '-';
                                                        }))
      get.out().push_back(field_invalid(get.path() + ".httpHeaders", json::value(name),
                                        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
                                        "'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"));
}

void check_handler(const Place& holder, bool probe, std::int64_t grace_s) {
  std::size_t count = 0;
  const auto one_more = [&](const Place& one) {
    if (!one.there())
      return false;
    if (++count > 1)
      one.forbidden("may not specify more than 1 handler type");
    return count == 1;
  };
  if (const Place exec = holder["exec"]; one_more(exec))
    exec["command"].needed();
  if (const Place get = holder["httpGet"]; one_more(get))
    check_http(get);
  if (const Place socket = holder["tcpSocket"]; one_more(socket))
    socket["port"].port_or_name();
  if (probe) {
    if (const Place grpc = holder["grpc"]; one_more(grpc))
      grpc["port"].port();
  } else if (const Place sleep = holder["sleep"]; one_more(sleep)) {
    const auto seconds = sleep["seconds"].number().value_or(0);
    if (seconds < 0 || seconds > grace_s)
      sleep.out().push_back(
          field_invalid(sleep.path(), json::value(seconds),
                        format("must be non-negative and less than terminationGracePeriodSeconds ({})", grace_s)));
  }
  if (count == 0)
    holder.required("must specify a handler type");
}

void check_probe(const Place& probe, std::int64_t grace_s, bool only_once, bool may_have_grace) {
  if (!probe.there())
    return;
  check_handler(probe, true, grace_s);
  for (const char* key :
       {"initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"})
    probe[key].at_least(0);
  const Place grace = probe["terminationGracePeriodSeconds"], times = probe["successThreshold"];
  if (const auto has = grace.number(); has && !may_have_grace)
    grace.invalid("must not be set for readinessProbes");
  else if (has && *has <= 0)
    grace.invalid("must be greater than 0");
  if (const auto has = times.number(); only_once && has && *has != 1)
    times.invalid("must be 1");
}

// --- amounts ---

bool is_standard(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" || name.starts_with("hugepages-");
}
constexpr std::string_view kOtherStandard[] = {"storage",
                                               "pods",
                                               "services",
                                               "replicationcontrollers",
                                               "resourcequotas",
                                               "secrets",
                                               "configmaps",
                                               "persistentvolumeclaims",
                                               "services.nodeports",
                                               "services.loadbalancers",
                                               "requests.cpu",
                                               "requests.memory",
                                               "requests.storage",
                                               "requests.ephemeral-storage",
                                               "limits.cpu",
                                               "limits.memory",
                                               "limits.ephemeral-storage"};

void check_resource_name(const std::string& name, const Place& amount) {
  const auto fault = [&](const char* what) {
    amount.out().push_back(field_invalid(amount.path(), json::value(name), what));
  };
  const auto faults = qualified_name_faults(name);
  for (const std::string& one : faults) amount.out().push_back(field_invalid(amount.path(), json::value(name), one));
  if (!faults.empty() || name.find('/') != name.npos || is_standard(name))
    return;
  if (!is_standard_resource(name))
    fault("must be a standard resource type or fully qualified");
  fault("must be a standard resource for containers");
}

bool is_shared_freely(std::string_view name) { return name.find('/') == name.npos && !name.starts_with("hugepages-"); }

void check_amounts_together(const Place& resources) {
  const Place limits = resources["limits"], requests = resources["requests"];
  for (const auto& [name, request] : requests.map()) {
    if (is_shared_freely(name))
      continue;
    const auto asked = quantity_in(requests.value(), name), limit = quantity_in(limits.value(), name);
    if (!limit)
      limits.required("Limit must be set for non overcommitable resources");
    else if (asked && *asked != *limit)
      requests.out().push_back(field_invalid(requests.path(), json::value(asked->text()),
                                             format("must be equal to {} limit of {}", name, limit->text())));
  }
  bool huge = false, plain = false;
  for (const Place& amounts : {limits, requests})
    for (const auto& [name, amount] : amounts.map()) {
      huge = huge || name.starts_with("hugepages-");
      plain = plain || name == "cpu" || name == "memory";
      if (!name.starts_with("hugepages-"))
        continue;
      const auto size = parse_quantity(after(name, "hugepages-"));
      const auto has = quantity_in(amounts.value(), name);
      if (size.ok() && size->whole() > 0 && has && has->whole() % size->whole() != 0)
        amount.invalid(format("{} is not positive integer multiple of {}", has->text(), name));
    }
  if (huge && !plain)
    resources.forbidden("HugePages require cpu or memory");
}

void check_claims(const Place& resources, const Place& spec) {
  std::set<std::string> names, known;
  for (const Place& claim : spec["resourceClaims"].each()) known.insert(claim["name"].text());
  for (const Place& one : resources["claims"].each()) {
    const std::string name = one["name"].text();
    if (name.empty()) {
      one["name"].required();
      continue;
    }
    if (!names.insert(name + "/" + one["request"].text()).second)
      one.duplicate();
    if (!known.contains(name))
      one.not_found();
  }
}

}  // namespace

void check_shown_field(const Place& field_ref, bool as_variable) {
  const Place path = field_ref["fieldPath"];
  const std::string text = path.text();
  if (text.empty())
    return path.required();
  if (const std::string version = field_ref["apiVersion"].text(); !version.empty() && version != "v1")
    return path.invalid("error converting fieldPath: unsupported pod version: " + version);
  for (const char* map : {"metadata.annotations", "metadata.labels"})
    if (text.starts_with(std::string(map) + "['") && text.ends_with("']")) {
      const std::string key = text.substr(std::string_view(map).size() + 2);
      const auto faults = qualified_name_faults(lower(key.substr(0, key.size() - 2)));
      return path.faults(faults);
    }
  constexpr std::string_view kVariables[] = {
      "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
      "status.hostIP", "status.hostIPs",     "status.podIP", "status.podIPs"};
  constexpr std::string_view kFiles[] = {"metadata.name", "metadata.namespace", "metadata.labels",
                                         "metadata.annotations", "metadata.uid"};
  const bool is_variable = std::ranges::find(kVariables, text) != std::end(kVariables);
  const bool is_file = std::ranges::find(kFiles, text) != std::end(kFiles);
  if (!is_variable && !is_file)
    path.invalid("error converting fieldPath: field label not supported: " + text);
  else if (as_variable && !is_variable)
    path.not_supported({"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
                        "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"});
  else if (!as_variable && !is_file)
    path.not_supported(
        {"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"});
}

void check_shown_resource(const Place& resource_ref) {
  const Place resource = resource_ref["resource"];
  const std::string name = resource.text();
  if (name.empty())
    return resource.required();
  if (!name.starts_with("limits.hugepages-") && !name.starts_with("requests.hugepages-"))
    resource.one_of({"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
                     "requests.ephemeral-storage", "requests.memory"});
}

bool is_standard_resource(std::string_view name) {
  return is_standard(name) || name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-") ||
         std::ranges::find(kOtherStandard, name) != std::end(kOtherStandard);
}

void check_resource_names(const Place& resources) {
  for (const char* which : {"limits", "requests"})
    for (const auto& [name, amount] : resources[which].map()) check_resource_name(name, amount);
}

void check_container_fields(const Place& container, const Place& spec, const ContainerIn& in) {
  check_variables_of(container);
  check_port_names(container);
  if (in.keeps_running && !in.ephemeral) {
    for (const char* when : {"postStart", "preStop"})
      if (const Place hook = container["lifecycle"][when]; hook.there())
        check_handler(hook, false, in.grace_s);
    check_probe(container["livenessProbe"], in.grace_s, true, true);
    check_probe(container["readinessProbe"], in.grace_s, false, false);
    check_probe(container["startupProbe"], in.grace_s, true, true);
  }
  if (const Place resources = container["resources"]; resources.there()) {
    check_resource_names(resources);
    check_amounts_together(resources);
    check_claims(resources, spec);
  }
}

}  // namespace lockstep::kube
