// Sources: kubernetes.io/docs/concepts/scheduling-eviction, …/storage/volumes; messages are those of k8s.io/kubernetes
// pkg/apis/core/validation.
#include "frontends/kube/kinds/pod_checks.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/container_checks.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kNameserversMax = 3;
constexpr std::int64_t kModeMax = 0777;

// --- placement ---

void check_node_terms(const Place& term) {
  for (const Place& one : term["matchExpressions"].each()) {
    const std::string how = one["operator"].text();
    const std::size_t count = list_in(one.value(), "values").size();
    if (how == "In" || how == "NotIn") {
      if (count == 0)
        one["values"].required("must be specified when `operator` is 'In' or 'NotIn'");
    } else if (how == "Exists" || how == "DoesNotExist") {
      if (count > 0)
        one["values"].forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else if (how == "Gt" || how == "Lt") {
      if (count != 1)
        one["values"].required("must be specified single value when `operator` is 'Lt' or 'Gt'");
    } else {
      one["operator"].invalid("not a valid selector operator");
    }
    one["key"].qualified_name();
  }
  for (const Place& one : term["matchFields"].each()) {
    one["operator"].one_of({"In", "NotIn"});
    if (list_in(one.value(), "values").size() != 1)
      one["values"].required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
    if (!one["key"].is("metadata.name"))
      one["key"].invalid("not a valid field selector key");
  }
}

void check_weight(const Place& weighted) {
  if (const auto weight = weighted["weight"].number().value_or(0); weight < 1 || weight > 100)
    weighted["weight"].invalid("must be in the range 1-100");
}

void check_topology_key(const Place& key) {
  if (key.empty())
    key.required("can not be empty");
  key.qualified_name();
}

void check_pod_term(const Place& term) {
  for (const char* selector : {"labelSelector", "namespaceSelector"}) check_selector(term[selector]);
  for (const Place& ns : term["namespaces"].each())
    for (const std::string& fault : dns_label_faults(ns.text()))
      term.out().push_back(field_invalid(term.path() + ".namespace", ns.value(), fault));
  if (!term["labelSelector"].there())
    for (const char* keys : {"matchLabelKeys", "mismatchLabelKeys"})
      if (!term[keys].empty())
        term[keys].forbidden("must not be specified when labelSelector is not set");
  check_topology_key(term["topologyKey"]);
}

void check_affinity(const Place& affinity) {
  const char *must = "requiredDuringSchedulingIgnoredDuringExecution",
             *should = "preferredDuringSchedulingIgnoredDuringExecution";
  const Place nodes = affinity["nodeAffinity"];
  if (const Place required = nodes[must]; required.there()) {
    if (required["nodeSelectorTerms"].empty())
      required["nodeSelectorTerms"].required("must have at least one node selector term");
    for (const Place& term : required["nodeSelectorTerms"].each()) check_node_terms(term);
  }
  for (const Place& one : nodes[should].each()) {
    check_weight(one);
    check_node_terms(one["preference"]);
  }
  for (const char* which : {"podAffinity", "podAntiAffinity"}) {
    for (const Place& term : affinity[which][must].each()) check_pod_term(term);
    for (const Place& one : affinity[which][should].each()) {
      check_weight(one);
      check_pod_term(one["podAffinityTerm"]);
    }
  }
}

void check_spread(const Place& spec) {
  std::set<std::string> seen;
  for (const Place& one : spec["topologySpreadConstraints"].each()) {
    const Place domains = one["minDomains"], when = one["whenUnsatisfiable"], key = one["topologyKey"];
    if (one["maxSkew"].number().value_or(0) <= 0)
      one["maxSkew"].invalid("must be greater than zero");
    if (key.empty())
      key.required("can not be empty");
    if (!seen.insert(key.text() + "\n" + when.text()).second)
      one.out().push_back(field_duplicate(one.path() + ".{topologyKey, whenUnsatisfiable}",
                                          json::value("{" + key.text() + ", " + when.text() + "}")));
    if (const auto has = domains.number(); has && *has <= 0)
      domains.invalid("must be greater than zero");
    else if (has && when.is("ScheduleAnyway"))
      domains.invalid("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway");
    if (!one["labelSelector"].there() && !one["matchLabelKeys"].empty())
      one["matchLabelKeys"].forbidden("must not be specified when labelSelector is not set");
    check_selector(one["labelSelector"]);
  }
}

void check_gates(const Place& spec) {
  std::set<std::string> names;
  for (const Place& one : spec["schedulingGates"].each()) {
    const std::string name = one["name"].text();
    for (const std::string& fault : qualified_name_faults(name))
      one.out().push_back(field_invalid(one.path(), json::value(name), fault));
    if (!names.insert(name).second)
      one.out().push_back(field_duplicate(one.path(), json::value(name)));
  }
  if (!names.empty() && !spec["nodeName"].empty())
    spec["nodeName"].forbidden("cannot be set until all schedulingGates have been cleared");
  for (const Place& one : spec["readinessGates"].each()) one["conditionType"].qualified_name();
}

void check_tolerations(const Place& spec) {
  for (const Place& one : spec["tolerations"].each()) {
    if (!one["key"].empty())
      one["key"].qualified_name();
    if (const Place how = one["operator"]; !how.empty())
      how.one_of({"Equal", "Exists"});
    if (const Place value = one["value"]; !value.empty() && !one["operator"].is("Exists"))
      for (const std::string& fault : label_value_faults(value.text()))
        one.out().push_back(field_invalid(one.path() + ".operator", value.value(), fault));
  }
}

// --- names and addresses ---

void check_dns(const Place& spec) {
  const Place config = spec["dnsConfig"], servers = config["nameservers"];
  if (spec["dnsPolicy"].is("None") && !config.there())
    return config.required("must provide `dnsConfig` when `dnsPolicy` is None");
  if (spec["dnsPolicy"].is("None") && servers.empty())
    servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None");
  if (servers.each().size() > kNameserversMax)
    servers.invalid(format("must not have more than {} nameservers", kNameserversMax));
  for (const Place& one : servers.each()) one.address();
  for (const Place& one : config["searches"].each()) {
    std::string name = one.text();
    if (name == ".")  // names are looked up as they are
      continue;
    if (name.ends_with('.'))
      name.pop_back();
    one.faults(search_path_faults(name));
  }
  for (const Place& one : config["options"].each())
    if (one["name"].empty())
      one.required("must not be empty");
}

void check_aliases(const Place& spec) {
  for (const Place& one : spec["hostAliases"].each()) {
    one["ip"].address();
    for (const Place& name : one["hostnames"].each()) name.dns_subdomain();
  }
}

// --- rights ---

void check_ids(const Place& security) {
  for (const char* id : {"fsGroup", "runAsUser", "runAsGroup"}) security[id].within(0, INT32_MAX);
  for (const Place& group : security["supplementalGroups"].each()) group.within(0, INT32_MAX);
}

// --- volumes ---

void check_local_path(const Place& path, const std::string& at) {
  const std::string text = path.text();
  const auto fault = [&](const char* what) { path.out().push_back(field_invalid(at, path.value(), what)); };
  if (text.empty())
    return path.out().push_back(field_required(at));
  if (text.starts_with('/'))
    fault("must be a relative path");
  const auto pieces = split(text, '/');
  if (std::ranges::find(pieces, "..") != pieces.end())
    fault("must not contain '..'");
  if (text.starts_with(".."))
    fault("must not start with '..'");
}

void check_mode(const Place& mode) {
  if (const auto has = mode.number(); has && (*has < 0 || *has > kModeMax))
    mode.invalid("must be a number between 0 and 0777 (octal), both inclusive");
}

void check_items(const Place& holder) {
  check_mode(holder["defaultMode"]);
  for (const Place& item : holder["items"].each()) {
    item["key"].needed();
    check_local_path(item["path"], item["path"].path());
    check_mode(item["mode"]);
  }
}

void check_downward(const Place& holder) {
  check_mode(holder["defaultMode"]);
  for (const Place& item : holder["items"].each()) {
    check_local_path(item["path"], holder.path() + ".path");
    const Place field = item["fieldRef"], resource = item["resourceFieldRef"];
    if (field.there() && resource.there())
      holder.out().push_back(field_invalid(holder.path() + ".resource", json::value(""),
                                           "fieldRef and resourceFieldRef can not be specified simultaneously"));
    else if (field.there())
      check_shown_field({field.value(), holder.path() + ".fieldRef", holder.out()}, false);
    else if (resource.there())
      check_shown_resource({resource.value(), holder.path() + ".resourceFieldRef", holder.out()});
    else
      holder.required("one of fieldRef and resourceFieldRef is required");
    check_mode(item["mode"]);
  }
}

void check_projected(const Place& projected) {
  check_mode(projected["defaultMode"]);
  std::set<std::string> paths;
  const auto add = [&](const Place& path) {
    if (!path.empty() && !paths.insert(path.text()).second)
      projected.out().push_back(field_invalid(projected.path(), path.value(), "conflicting duplicate paths"));
  };
  for (const Place& source : projected["sources"].each()) {
    std::size_t count = 0;
    for (const char* key :
         {"secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"}) {
      const Place one = source[key];
      if (!one.there())
        continue;
      if (++count > 1)
        source.forbidden("may not specify more than 1 volume type per source");
      if (std::string_view(key) == "downwardAPI")
        check_downward(one);
      else if (std::string_view(key) == "secret" || std::string_view(key) == "configMap") {
        one["name"].needed();
        check_items(one);
      }
      for (const Place& item : one["items"].each()) add(item["path"]);
    }
    if (const Place token = source["serviceAccountToken"]; token.there()) {
      if (const auto seconds = token["expirationSeconds"].number(); seconds && *seconds < 600)
        token["expirationSeconds"].invalid("may not specify a duration less than 10 minutes");
      if (token["path"].empty())
        projected["path"].required();
      add(token["path"]);
    }
  }
}

void check_volume(const Place& volume) {
  if (const Place map = volume["configMap"]; map.there()) {
    map["name"].needed();
    check_items(map);
  }
  if (const Place secret = volume["secret"]; secret.there()) {
    secret["secretName"].needed();
    check_items(secret);
  }
  if (const Place claim = volume["persistentVolumeClaim"]; claim.there())
    claim["claimName"].needed();
  if (const Place nfs = volume["nfs"]; nfs.there()) {
    nfs["server"].needed();
    if (nfs["path"].empty())
      nfs["path"].required();
    else if (!nfs["path"].text().starts_with('/'))
      nfs["path"].invalid("must be an absolute path");
  }
  if (const auto limit = quantity_in(volume["emptyDir"].value(), "sizeLimit"); limit && limit->sign() < 0)
    volume["emptyDir"]["sizeLimit"].forbidden("SizeLimit field must be a valid resource quantity");
  if (const Place shown = volume["downwardAPI"]; shown.there())
    check_downward(shown);
  if (const Place projected = volume["projected"]; projected.there())
    check_projected(projected);
  if (const Place csi = volume["csi"]; csi.there())
    csi["driver"].name();
  if (const Place own = volume["ephemeral"]; own.there() && !own["volumeClaimTemplate"].there())
    own["volumeClaimTemplate"].required();
}

// --- ports of the node ---

void check_node_ports(const Place& spec) {
  std::set<std::string> seen;
  for (const Place& container : spec["containers"].each())
    for (const Place& one : container["ports"].each())
      if (const auto port = one["hostPort"].number(); port && *port != 0)
        if (const std::string key = format("{}/{}/{}", one["protocol"].text(), one["hostIP"].text(), *port);
            !seen.insert(key).second)
          one.out().push_back(field_duplicate(one["hostPort"].path(), json::value(key)));
}

// --- resource claims ---

void check_resource_claims(const Place& spec) {
  std::set<std::string> names;
  for (const Place& one : spec["resourceClaims"].each()) {
    if (one["name"].empty())
      one["name"].required();
    else if (!names.insert(one["name"].text()).second)
      one["name"].duplicate();
    const std::size_t count = one["resourceClaimName"].there() + one["resourceClaimTemplateName"].there();
    if (count == 0)
      one.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`");
    else if (count > 1)
      one.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
  }
}

}  // namespace

void check_pod_fields(const Place& spec) {
  spec["nodeSelector"].label_keys();
  if (!spec["nodeName"].empty())
    spec["nodeName"].dns_subdomain();
  check_affinity(spec["affinity"]);
  check_spread(spec);
  check_gates(spec);
  check_tolerations(spec);
  check_dns(spec);
  check_aliases(spec);
  check_ids(spec["securityContext"]);
  for (const Place& volume : spec["volumes"].each()) check_volume(volume);
  check_resource_claims(spec);
  check_node_ports(spec);
  if (const Place name = spec["os"]["name"]; spec["os"].there() && !name.is("linux") && !name.is("windows"))
    spec.out().push_back(field_not_supported("spec.os", name.value(), std::vector<std::string>{"linux", "windows"}));
  if (const Place resources = spec["resources"]; resources.there())
    check_resource_names(resources);
  const std::int64_t grace_s = spec["terminationGracePeriodSeconds"].number().value_or(30);
  for (const Place& one : spec["initContainers"].each())
    check_container_fields(one, spec, {.keeps_running = is_sidecar(one.value()), .grace_s = grace_s});
  for (const Place& one : spec["containers"].each()) check_container_fields(one, spec, {.grace_s = grace_s});
}

}  // namespace lockstep::kube
