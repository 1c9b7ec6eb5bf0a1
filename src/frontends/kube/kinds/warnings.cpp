#include "frontends/kube/kinds/warnings.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/kinds/pod_templates.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "frontends/kube/machinery/quantity.h"
#include "frontends/kube/machinery/quoted.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kWarningsMax = 32, kWarningBytes = 400;

class Warnings {
 public:
  void add(const Place& where, const std::string& words) { add(format("{}: {}", where.path(), words)); }
  void add(std::string words) {
    if (all_.size() < kWarningsMax)
      all_.push_back(words.size() > kWarningBytes ? words.substr(0, kWarningBytes) + "…" : std::move(words));
  }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

const char* label_out_of_use(std::string_view label) {
  static const std::map<std::string_view, const char*> known{
      {"beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"},
      {"beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"},
      {"failure-domain.beta.kubernetes.io/region",
       "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"},
      {"failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"},
      {"beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"},
      {"app.kubernetes.io/created-by", "deprecated since v1.9"},
      {"scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"},
      {"node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"},
  };
  const auto at = known.find(label);
  return at == known.end() ? nullptr : at->second;
}

// --- where a pod goes ---

void warn_of_label(const Place& where, const std::string& label, Warnings& out) {
  if (const char* words = label_out_of_use(label))
    out.add(where, format("{} is {}", label, words));
}

void warn_of_term(const Place& term, Warnings& out) {
  for (const Place& one : term["matchExpressions"].each()) warn_of_label(one["key"], one["key"].text(), out);
}

void warn_of_no_selector(const Place& term, Warnings& out) {
  if (const Place selector = term["labelSelector"]; !selector.there())
    out.add(selector, "a null labelSelector results in matching no pod");
}

void warn_of_placement(const Place& spec, Warnings& out) {
  for (const auto& [key, entry] : spec["nodeSelector"].map())
    if (const char* words = label_out_of_use(key))
      out.add(entry, words);
  constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr const char* kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";
  const Place nodes = spec["affinity"]["nodeAffinity"];
  for (const Place& term : nodes[kRequired]["nodeSelectorTerms"].each()) warn_of_term(term, out);
  for (const Place& term : nodes[kPreferred].each()) warn_of_term(term["preference"], out);
  for (const Place& one : spec["topologySpreadConstraints"].each()) {
    warn_of_label(one["topologyKey"], one["topologyKey"].text(), out);
    warn_of_no_selector(one, out);
  }
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const Place terms = spec["affinity"][kind];
    for (const Place& term : terms[kRequired].each()) warn_of_no_selector(term, out);
    for (const Place& term : terms[kPreferred].each()) warn_of_no_selector(term["podAffinityTerm"], out);
  }
}

// --- a pod's containers ---

std::vector<Place> containers_of(const Place& spec) {
  std::vector<Place> out;
  for (const char* list : {"initContainers", "containers", "ephemeralContainers"})
    for (Place& one : spec[list].each()) out.push_back(std::move(one));
  return out;
}

void warn_of_variables(const Place& container, Warnings& out) {
  std::set<std::string> seen;
  for (const Place& one : container["env"].each()) {
    const std::string name = one["name"].text(), value = one["value"].text(), earlier = "$(" + name + ")";
    const bool kept = value.find(earlier) != value.npos && value != earlier && !one["valueFrom"].there();
    if (!seen.insert(name).second && !kept)
      out.add(one, format("hides previous definition of {}, which may be dropped when using apply", quoted(name)));
  }
}

void warn_of_part_bytes(const Place& amounts, Warnings& out) {
  for (const char* key : {"memory", "ephemeral-storage"}) {
    const Place amount = amounts.entry(key);
    if (!amount.there())
      continue;
    if (const auto read = parse_quantity(amount.text()); read.ok() && !read->is_whole())
      out.add(amount, format("fractional byte value {} is invalid, must be an integer", quoted(amount.text())));
  }
}

struct Port {
  Place where;
  std::string address;
  std::int64_t on_host = 0;
};

// What two containers, or one of them twice, say of one port.
void warn_of_two_ports(const Port& one, const Port& other, Warnings& out) {
  const char* how = nullptr;
  if (one.address == other.address && one.on_host == other.on_host)
    how = "duplicate port definition with ";
  else if (one.on_host == 0 || other.on_host == 0)
    how = "overlapping port definition with ";
  else if (one.on_host == other.on_host && one.address.empty() != other.address.empty())
    how = "dangerously ambiguous port definition with ";
  if (how)
    out.add(one.where, how + other.where.path());
}

void warn_of_ports(const std::vector<Place>& containers, Warnings& out) {
  std::map<std::pair<std::int64_t, std::string>, std::vector<Port>> all;
  std::map<std::string, std::string> names;
  for (const Place& container : containers)
    for (const Place& place : container["ports"].each()) {
      const Port port{place, place["hostIP"].text(), place["hostPort"].number().value_or(0)};
      std::vector<Port>& alike = all[{place["containerPort"].number().value_or(0), place["protocol"].text()}];
      for (const Port& other : alike) warn_of_two_ports(port, other, out);
      if (alike.size() < kWarningsMax)
        alike.push_back(port);
    }
  for (const Place& container : containers)
    for (const Place& place : container["ports"].each()) {
      const std::string name = place["name"].text();
      if (name.empty())
        continue;
      if (const auto [at, fresh] = names.emplace(name, place.path()); !fresh)
        out.add(place, format("duplicate port name {} with {}, services and probes that select ports by name will "
                              "use {}",
                              quoted(name), at->second, at->second));
    }
}

// --- a pod ---

void warn_of_annotations(const Place& metadata, const Place& spec, Warnings& out) {
  const Place notes = metadata["annotations"];
  const auto used = [&](const std::string& key, const char* words) {
    if (const Place note = notes.entry(key); note.there())
      out.add(note, words);
  };
  used("scheduler.alpha.kubernetes.io/critical-pod",
       "non-functional in v1.16+; use the \"priorityClassName\" field instead");
  for (const char* key : {"security.alpha.kubernetes.io/sysctls", "security.alpha.kubernetes.io/unsafe-sysctls"})
    used(key, "non-functional in v1.11+; use the \"sysctls\" field instead");
  constexpr const char* kSeccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
  if (!spec["securityContext"]["seccompProfile"].there())
    used("seccomp.security.alpha.kubernetes.io/pod", kSeccomp);
  for (const Place& one : containers_of(spec))
    if (!one["securityContext"]["seccompProfile"].there())
      used("container.seccomp.security.alpha.kubernetes.io/" + one["name"].text(), kSeccomp);
}

void warn_of_twice(const Place& list, const char* key, const char* what, Warnings& out) {
  std::set<std::string> seen;
  for (const Place& one : list.each())
    if (!seen.insert(one[key].text()).second)
      out.add(one[key], format("duplicate {} {}", what, quoted(one[key].text())));
}

void warn_of_pod(const Place& metadata, const Place& spec, Warnings& out) {
  warn_of_placement(spec, out);
  warn_of_annotations(metadata, spec, out);
  for (const Place& volume : spec["volumes"].each())
    if (const Place git = volume["gitRepo"]; git.there())
      out.add(git, "deprecated in v1.11, and disabled by default in v1.33+");
  warn_of_twice(spec["hostAliases"], "ip", "ip", out);
  warn_of_twice(spec["imagePullSecrets"], "name", "name", out);
  for (const Place& one : spec["imagePullSecrets"].each())
    if (one["name"].empty())
      out.add(one["name"], "invalid empty name \"\"");
  warn_of_part_bytes(spec["overhead"], out);
  const std::vector<Place> containers = containers_of(spec);
  for (const Place& one : containers) {
    for (const char* list : {"limits", "requests"}) warn_of_part_bytes(one["resources"][list], out);
    warn_of_variables(one, out);
  }
  warn_of_ports(containers, out);
  if (const Place grace = spec["terminationGracePeriodSeconds"]; grace.number().value_or(0) < 0)
    out.add(grace, "must be >= 0; negative values are invalid and will be treated as 1");
}

void warn_of_name(const Place& metadata, const char* use, Warnings& out) {
  const auto faults = dns_label_faults(metadata["name"].text());
  if (metadata["name"].there() && !faults.empty())
    out.add(metadata["name"],
            format("this is used in {}, which can result in surprising behavior; a DNS label is recommended: [{}]", use,
                   join(faults, " ")));
}

// --- services ---

void warn_of_service(const Place& spec, Warnings& out) {
  const bool by_name = spec["type"].is("ExternalName");
  if (spec["type"].is("ClusterIP") && spec["clusterIP"].is("None")) {
    if (!spec["loadBalancerIP"].empty())
      out.add("spec.loadBalancerIP is ignored for headless services");
    if (!spec["externalIPs"].empty())
      out.add("spec.externalIPs is ignored for headless services");
    if (!spec["sessionAffinity"].empty() && !spec["sessionAffinity"].is("None"))
      out.add("spec.SessionAffinity is ignored for headless services");
  }
  if (by_name && !spec["externalIPs"].empty())
    out.add("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
  if (!by_name && !spec["externalName"].empty())
    out.add("spec.externalName is ignored when spec.type is not \"ExternalName\"");
}

// Whether its name becomes the beginning of its pods' names.
bool names_pods(std::string_view type) {
  return type != "daemonsets.apps" && type != "statefulsets.apps" && type != "podtemplates";
}

}  // namespace

std::vector<std::string> warnings_of(std::string_view type, const json::object& tree, const json::object* old) {
  FieldErrors none;
  Warnings out;
  const Place metadata(part(tree, "metadata"), "metadata", none), spec(part(tree, "spec"), "spec", none);
  if (type == "services") {
    warn_of_service(spec, out);
  } else if (type == "pods") {
    if (old)
      return {};
    warn_of_name(metadata, "the Pod's hostname", out);
    warn_of_pod(metadata, spec, out);
  } else if (const std::vector<std::string> path = path_to_pod(type); !path.empty()) {
    if (old && same_json(spec.value(), part(*old, "spec")))
      return {};
    if (!old && names_pods(type))
      warn_of_name(metadata, "Pod names and hostnames", out);
    Place made(part(tree, path.front()), path.front(), none);
    for (std::size_t i = 1; i < path.size(); ++i) made = made[path[i]];
    warn_of_pod(made["metadata"], made["spec"], out);
  }
  return out.take();
}

}  // namespace lockstep::kube
