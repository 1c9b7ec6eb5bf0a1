// What a pod must keep to beyond its schema, and the little of it that may change once it is there.
// Source: kubernetes.io/docs/concepts/workloads/pods ("Pod update and replacement"); messages are those of
// k8s.io/kubernetes pkg/apis/core/validation.
#include <algorithm>
#include <boost/json/array.hpp>
#include <set>
#include <span>

#include "base/text.h"
#include "frontends/kube/kinds/container_checks.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/pod_checks.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/names.h"
#include "model/bounds.h"

namespace lockstep::kube {

namespace {

constexpr const char* kFixed =
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
constexpr std::string_view kLists[] = {"initContainers", "containers"};
constexpr std::size_t kCapabilityNameMax = 64;

json::object& object_in(json::object& tree, std::string_view name) {
  json::value& value = tree[name];
  return value.is_object() ? value.get_object() : value.emplace_object();
}

void take_over(json::object& to, const json::value& from, std::string_view key) {
  if (const json::value& value = part(from, key); value.is_null())
    to.erase(key);
  else
    to[key] = value;
}

// --- a new pod ---

void check_name(const std::string& name, const std::string& path, std::set<std::string>& names, FieldErrors& out) {
  if (name.empty())
    return out.push_back(field_required(path));
  for (const std::string& fault : dns_label_faults(name)) out.push_back(field_invalid(path, json::value(name), fault));
  if (!names.insert(name).second)
    out.push_back(field_duplicate(path, json::value(name)));
}

void check_amounts(const json::value& container, const std::string& path, FieldErrors& out) {
  const json::value &resources = part(container, "resources"), &limits = part(resources, "limits");
  for (const char* which : {"limits", "requests"}) {
    const json::object* amounts = member_object(resources, which);
    if (!amounts)
      continue;
    for (const auto& [name, value] : *amounts) {
      const auto amount = quantity_in(json::value(*amounts), name);
      const std::string at = format("{}.resources.{}[{}]", path, which, std::string_view(name));
      if (amount && amount->sign() < 0)
        out.push_back(field_invalid(at, json::value(amount->text()), "must be greater than or equal to 0"));
      if (amount && std::string_view(name).find('/') != std::string_view::npos && !amount->is_whole())
        out.push_back(field_invalid(at, json::value(amount->text()), "must be an integer"));
      const auto limit = quantity_in(limits, name);
      if (std::string_view(which) == "requests" && amount && limit && *limit < *amount)
        out.push_back(field_invalid(
            format("{}.resources.requests", path), json::value(amount->text()),
            format("must be less than or equal to {} limit of {}", std::string_view(name), limit->text())));
    }
  }
}

void check_mounts(const json::value& container, const std::string& path, const std::set<std::string>& volumes,
                  FieldErrors& out) {
  std::set<std::string> targets;
  std::size_t i = 0;
  for (const json::value& one : list_in(container, "volumeMounts")) {
    const std::string at = format("{}.volumeMounts[{}]", path, i++);
    const std::string name = text_in(one, "name"), target = text_in(one, "mountPath"), inside = text_in(one, "subPath");
    if (name.empty())
      out.push_back(field_required(at + ".name"));
    if (!volumes.contains(name))
      out.push_back(field_not_found(at + ".name", json::value(name)));
    if (target.empty())
      out.push_back(field_required(at + ".mountPath"));
    else if (!targets.insert(target).second)
      out.push_back(field_invalid(at + ".mountPath", json::value(target), "must be unique"));
    for (const std::string& piece : split(inside, '/'))
      if (piece == "..")
        out.push_back(field_invalid(path + ".volumeMounts.subPath", json::value(inside), "must not contain '..'"));
    if (inside.starts_with('/'))
      out.push_back(field_invalid(path + ".volumeMounts.subPath", json::value(inside), "must be a relative path"));
    if (text_in(one, "mountPropagation") == "Bidirectional" &&
        !flag_in(part(container, "securityContext"), "privileged"))
      out.push_back(field_forbidden(path + ".volumeMounts.mountPropagation",
                                    "Bidirectional mount propagation is available only to privileged containers"));
    if (!inside.empty() && !text_in(one, "subPathExpr").empty())
      out.push_back(field_invalid(at + ".subPathExpr", json::value(text_in(one, "subPathExpr")),
                                  "subPathExpr and subPath are mutually exclusive"));
  }
}

void check_ports(const json::value& container, const std::string& path, bool on_node, FieldErrors& out) {
  std::size_t i = 0;
  for (const json::value& one : list_in(container, "ports")) {
    const std::string at = format("{}.ports[{}]", path, i++);
    const auto port = integer_in(one, "containerPort"), node_port = integer_in(one, "hostPort");
    if (!port || *port == 0)
      out.push_back(field_required(at + ".containerPort"));
    else if (*port < 0 || *port > UINT16_MAX)
      out.push_back(field_invalid(at + ".containerPort", json::value(*port), "must be between 1 and 65535, inclusive"));
    if (node_port && (*node_port < 0 || *node_port > UINT16_MAX))
      out.push_back(field_invalid(at + ".hostPort", json::value(*node_port), "must be between 1 and 65535, inclusive"));
    else if (on_node && node_port && *node_port != 0 && port && *node_port != *port)
      out.push_back(field_invalid(at + ".hostPort", json::value(*node_port),
                                  "must match `containerPort` when `hostNetwork` is true"));
    if (const std::string name = text_in(one, "name"); !name.empty())
      for (const std::string& fault : port_name_faults(name))
        out.push_back(field_invalid(at + ".name", json::value(name), fault));
  }
}

// Of a filter of system calls or of AppArmor: where it is the node's own, which. inside: it is a path that must stay in
// a folder.
void check_profile(const json::value& profile, const std::string& path, const char* what, bool inside,
                   FieldErrors& out) {
  if (!profile.is_object())
    return;
  const std::string type = text_in(profile, "type"), name = text_in(profile, "localhostProfile");
  const auto parts = split(name, '/');
  if (type == "Localhost" && name.empty())
    out.push_back(field_required(path + ".localhostProfile", format("must be set when {} type is Localhost", what)));
  else if (type != "Localhost" && !name.empty())
    out.push_back(field_invalid(path + ".localhostProfile", json::value(name),
                                format("can only be set when {} type is Localhost", what)));
  else if (inside && name.starts_with('/'))
    out.push_back(field_invalid(path + ".localhostProfile", json::value(name), "must be a relative path"));
  else if (inside && std::ranges::find(parts, "..") != parts.end())
    out.push_back(field_invalid(path + ".localhostProfile", json::value(name), "must not contain '..'"));
}

void check_profiles(const json::value& security, const std::string& path, FieldErrors& out) {
  check_profile(part(security, "seccompProfile"), path + ".seccompProfile", "seccomp", true, out);
  check_profile(part(security, "appArmorProfile"), path + ".appArmorProfile", "AppArmor", false, out);
}

void check_rights(const json::value& container, const std::string& path, bool own_users, FieldErrors& out) {
  const json::value& own = part(container, "securityContext");
  check_profiles(own, path + ".securityContext", out);
  if (text_in(own, "procMount") == "Unmasked" && !own_users)
    out.push_back(field_invalid(path + ".securityContext.procMount", json::value("Unmasked"),
                                "`hostUsers` must be false to use `Unmasked`"));
  for (const char* list : {"add", "drop"})
    for (const std::string& name : texts_in(part(own, "capabilities"), list))
      if (name.size() > kCapabilityNameMax)
        out.push_back(field_invalid(format("{}.securityContext.capabilities.{}", path, list), json::value(name),
                                    "names no capability"));
  const json::value& escalation = part(own, "allowPrivilegeEscalation");
  const auto added = texts_in(part(own, "capabilities"), "add");
  if (escalation.is_bool() && !escalation.get_bool() && std::ranges::find(added, "CAP_SYS_ADMIN") != added.end())
    out.push_back(field_invalid(path + ".securityContext", json::value(""),
                                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"));
  if (escalation.is_bool() && !escalation.get_bool() && flag_in(own, "privileged"))
    out.push_back(field_invalid(path + ".securityContext", json::value(""),
                                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
  for (const char* id : {"runAsUser", "runAsGroup"})
    if (const auto number = integer_in(own, id); number && (*number < 0 || *number > INT32_MAX))
      out.push_back(field_invalid(format("{}.securityContext.{}", path, id), json::value(*number),
                                  "must be between 0 and 2147483647, inclusive"));
}

bool has_own_users(const json::object& pod) {
  const json::value& shared = part(spec_of(pod), "hostUsers");
  return shared.is_bool() && !shared.get_bool();
}

// What every container keeps to.
void check_container(const json::object& pod, const json::value& one, const std::string& path,
                     const std::set<std::string>& volumes, FieldErrors& out) {
  const std::string image = text_in(one, "image");
  if (image.empty())
    out.push_back(field_required(path + ".image"));
  else if (trim(image) != image)
    out.push_back(field_invalid(path + ".image", json::value(image), "must not have leading or trailing whitespace"));
  check_mounts(one, path, volumes, out);
  check_rights(one, path, has_own_users(pod), out);
}

void check_containers(const json::object& pod, const std::set<std::string>& volumes, FieldErrors& out) {
  std::set<std::string> names;
  const bool on_node = flag_in(spec_of(pod), "hostNetwork");
  for (const std::string_view list : kLists) {
    std::size_t i = 0;
    for (const json::value& one : containers_in(pod, list)) {
      const std::string path = format("spec.{}[{}]", list, i++);
      check_name(text_in(one, "name"), path + ".name", names, out);
      check_container(pod, one, path, volumes, out);
      check_amounts(one, path, out);
      check_ports(one, path, on_node, out);
      if (list == kLists[0] && !is_sidecar(one))
        for (const char* not_there : {"lifecycle", "livenessProbe", "readinessProbe", "startupProbe"})
          if (part(one, not_there).is_object())
            out.push_back(field_forbidden(path + "." + not_there,
                                          "may not be set for init containers without "
                                          "restartPolicy=Always"));
    }
  }
  if (containers_in(pod, "containers").empty())
    out.push_back(field_required("spec.containers"));
}

// A debugger's container: of nothing the pod is for. Source:
// kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers.
void check_added(const json::object& pod, FieldErrors& out) {
  constexpr const char* kNot = "cannot be set for an Ephemeral Container";
  std::set<std::string> names, targets, volumes;
  for (const std::string_view list : kLists)
    for (const json::value& one : containers_in(pod, list)) targets.insert(text_in(one, "name"));
  for (const json::value& one : list_in(spec_of(pod), "volumes")) volumes.insert(text_in(one, "name"));
  names = targets;
  const json::array& all = containers_in(pod, "ephemeralContainers");
  if (all.size() > kAddedContainersMax)
    out.push_back(field_invalid("spec.ephemeralContainers", json::value(all.size()),
                                format("at most {} are put beside a pod's containers", kAddedContainersMax)));
  std::size_t i = 0;
  for (const json::value& one : all) {
    const std::string path = format("spec.ephemeralContainers[{}]", i++);
    check_name(text_in(one, "name"), path + ".name", names, out);
    check_container(pod, one, path, volumes, out);
    check_container_fields(Place(one, path, out), Place(spec_of(pod), "spec", out), {.ephemeral = true});
    if (const std::string target = text_in(one, "targetContainerName"); !target.empty() && !targets.contains(target))
      out.push_back(field_not_found(path + ".targetContainerName", json::value(target)));
    for (const char* key :
         {"ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy", "restartPolicy"})
      if (const json::value& value = part(one, key);
          !value.is_null() && !(value.is_array() && value.get_array().empty()))
        out.push_back(field_forbidden(format("{}.{}", path, key), kNot));
    if (const json::value& amounts = part(one, "resources"); amounts.is_object() && !amounts.get_object().empty())
      out.push_back(field_forbidden(path + ".resources", kNot));
    std::size_t m = 0;
    for (const json::value& mount : list_in(one, "volumeMounts")) {
      for (const char* key : {"subPath", "subPathExpr"})
        if (!text_in(mount, key).empty())
          out.push_back(field_forbidden(format("{}.volumeMounts[{}].{}", path, m, key), kNot));
      ++m;
    }
  }
}

std::set<std::string> check_volumes(const json::object& pod, FieldErrors& out) {
  std::set<std::string> names;
  std::size_t i = 0;
  const json::array& all = list_in(spec_of(pod), "volumes");
  if (all.size() > kVolumesMax)
    out.push_back(field_invalid("spec.volumes", json::value(all.size()),
                                format("a pod has at most {} volumes here", kVolumesMax)));
  for (const json::value& one : all) {
    if (i == kVolumesMax)
      break;
    const std::string path = format("spec.volumes[{}]", i++);
    check_name(text_in(one, "name"), path + ".name", names, out);
    const std::size_t kinds = one.as_object().size() - one.as_object().contains("name");
    if (kinds == 0)
      out.push_back(field_required(path, "must specify a volume type"));
    else if (kinds > 1)
      out.push_back(field_forbidden(path, "may not specify more than 1 volume type"));
    if (const json::value& host = part(one, "hostPath"); host.is_object()) {
      const std::string where = text_in(host, "path");
      if (where.empty())
        out.push_back(field_required(path + ".hostPath.path"));
      for (const std::string& piece : split(where, '/'))
        if (piece == "..")
          out.push_back(field_invalid(path + ".hostPath.path", json::value(where), "must not contain '..'"));
    }
  }
  return names;
}

// Parts of small letters and digits, with "-" and "_" between them, parted by "." or "/".
bool is_sysctl_name(std::string_view name) {
  const auto alone = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  bool begins = true, good = !name.empty() && name.size() <= 253;
  for (std::size_t at = 0; good && at < name.size(); ++at) {
    const char c = name[at];
    const bool ends = at + 1 == name.size() || name[at + 1] == '.' || name[at + 1] == '/';
    const bool parts = c == '.' || c == '/';
    good = parts ? !begins && at + 1 < name.size() : alone(c) || ((c == '-' || c == '_') && !begins && !ends);
    begins = parts;
  }
  return good;
}

// Bounds of ours, far above what people write: each of these is compared with others, and sent to the node whole.
struct ListBound {
  const char* list;
  std::size_t most;
};
constexpr ListBound kPodLists[] = {{"volumes", 1024},         {"tolerations", 1024},
                                   {"hostAliases", 1024},     {"schedulingGates", 128},
                                   {"imagePullSecrets", 256}, {"topologySpreadConstraints", 64},
                                   {"readinessGates", 256},   {"resourceClaims", 256}};
constexpr ListBound kContainerListBounds[] = {{"env", 4096},          {"envFrom", 256},       {"ports", 1024},
                                              {"volumeMounts", 2048}, {"volumeDevices", 256}, {"resizePolicy", 16}};

bool check_lists(const json::value& holder, std::string_view path, std::span<const ListBound> bounds,
                 FieldErrors& out) {
  const std::size_t before = out.size();
  for (const auto& [list, most] : bounds)
    if (const std::size_t count = list_in(holder, list).size(); count > most)
      out.push_back(field_too_many(format("{}.{}", path, list), count, most));
  return out.size() == before;
}

bool check_all_lists(const json::object& pod, FieldErrors& out) {
  bool good = check_lists(spec_of(pod), "spec", kPodLists, out);
  for (const std::string_view list : kLists) {
    std::size_t i = 0;
    for (const json::value& container : list_in(spec_of(pod), list))
      good = check_lists(container, format("spec.{}[{}]", list, i++), kContainerListBounds, out) && good;
  }
  return good;
}

void check_spec(const json::object& pod, FieldErrors& out) {
  const json::value& spec = spec_of(pod);
  if (!check_all_lists(pod, out))
    return;
  check_pod_fields(Place(spec, "spec", out));
  check_containers(pod, check_volumes(pod, out), out);
  if (const auto deadline = integer_in(spec, "activeDeadlineSeconds");
      deadline && (*deadline < 1 || *deadline > INT32_MAX))
    out.push_back(field_invalid("spec.activeDeadlineSeconds", json::value(*deadline),
                                "must be between 1 and 2147483647, inclusive"));
  for (const char* key : {"hostname", "subdomain"})
    if (const std::string name = text_in(spec, key); !name.empty())
      for (const std::string& fault : dns_label_faults(name))
        out.push_back(field_invalid(std::string("spec.") + key, json::value(name), fault));
  if (flag_in(spec, "hostPID") && flag_in(spec, "shareProcessNamespace"))
    out.push_back(field_invalid("spec.securityContext.shareProcessNamespace", json::value(true),
                                "ShareProcessNamespace and HostPID "
                                "cannot both be enabled"));
  check_profiles(part(spec, "securityContext"), "spec.securityContext", out);
  if (has_own_users(pod))
    for (const char* key : {"hostNetwork", "hostPID", "hostIPC"})
      if (flag_in(spec, key))
        out.push_back(field_forbidden(std::string("spec.") + key, "when `hostUsers` is false"));
  std::set<std::string> sysctls;
  std::size_t i = 0;
  for (const json::value& one : list_in(part(spec, "securityContext"), "sysctls")) {
    const std::string name = text_in(one, "name");
    const bool well = is_sysctl_name(name);
    if (!well)
      out.push_back(field_invalid(format("spec.securityContext.sysctls[{}].name", i), json::value(name),
                                  "must have at most 253 characters and match regex "
                                  "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"));
    else if (!sysctls.insert(name).second)
      out.push_back(field_duplicate(format("spec.securityContext.sysctls[{}].name", i), json::value(name)));
    else if (flag_in(spec, "hostNetwork") && sysctl_is_of_network(name))
      out.push_back(field_invalid(format("spec.securityContext.sysctls[{}].name", i), json::value(name),
                                  "may not be specified when 'hostNetwork' is true"));
    else if (flag_in(spec, "hostIPC") && sysctl_is_of_ipc(name))
      out.push_back(field_invalid(format("spec.securityContext.sysctls[{}].name", i), json::value(name),
                                  "may not be specified when 'hostIPC' is true"));
    ++i;
  }
  i = 0;
  for (const json::value& one : list_in(spec, "tolerations")) {
    const std::string path = format("spec.tolerations[{}]", i++), how = text_in(one, "operator");
    if (text_in(one, "key").empty() && how != "Exists")
      out.push_back(field_invalid(path + ".operator", json::value(how),
                                  "operator must be Exists when `key` is empty, which means \"match all values and all "
                                  "keys\""));
    if (how == "Exists" && !text_in(one, "value").empty())
      out.push_back(
          field_invalid(path + ".operator", json::value(how), "value must be empty when `operator` is 'Exists'"));
    if (integer_in(one, "tolerationSeconds") && text_in(one, "effect") != "NoExecute")
      out.push_back(field_invalid(path + ".effect", json::value(text_in(one, "effect")),
                                  "effect must be 'NoExecute' when `tolerationSeconds` is set"));
  }
}

// --- a pod that is there ---

// What may change is made what it was; if anything else differs, that may not.
bool changes_more(const json::object& now, const json::object& before) {
  json::value kept = spec_of(now);
  const json::value& was = spec_of(before);
  if (!kept.is_object() || !was.is_object())
    return !same_json(kept, was);
  json::object& spec = kept.get_object();
  for (const std::string_view list : kLists) {
    json::value* containers = spec.if_contains(list);
    const json::array& old = list_in(was, list);
    if (!containers || !containers->is_array() || containers->get_array().size() != old.size())
      continue;
    for (std::size_t i = 0; i < old.size(); ++i)
      if (containers->get_array()[i].is_object())
        take_over(containers->get_array()[i].get_object(), old[i], "image");
  }
  for (const char* free : {"activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName"})
    take_over(spec, was, free);
  if (integer_in(was, "terminationGracePeriodSeconds").value_or(0) < 0)
    take_over(spec, was, "terminationGracePeriodSeconds");
  if (!list_in(was, "schedulingGates").empty())
    for (const char* free : {"nodeSelector", "affinity"}) take_over(spec, was, free);
  return !same_json(kept, was);
}

bool holds_all(const json::array& now, const json::array& before) {
  return std::ranges::all_of(before, [&](const json::value& old) {
    return std::ranges::any_of(now, [&](const json::value& one) { return same_json(one, old); });
  });
}

void check_changes(const json::object& pod, const json::object& old, FieldErrors& out) {
  const json::value &now = spec_of(pod), &was = spec_of(old);
  if (!check_all_lists(pod, out))
    return;
  const auto deadline = integer_in(now, "activeDeadlineSeconds"), before = integer_in(was, "activeDeadlineSeconds");
  if (before && (!deadline || *deadline > *before))
    out.push_back(field_invalid("spec.activeDeadlineSeconds", json::value(deadline.value_or(0)),
                                deadline ? format("must be less than or equal to previous value: {}", *before)
                                         : "must not update from a positive integer to nil value"));
  if (!holds_all(list_in(now, "tolerations"), list_in(was, "tolerations")))
    out.push_back(
        field_forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"));
  if (!holds_all(list_in(was, "schedulingGates"), list_in(now, "schedulingGates")))
    out.push_back(field_forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gate"));
  if (changes_more(pod, old))
    out.push_back(field_forbidden("spec", kFixed));
}

// --- other amounts for a pod that is there ---

constexpr const char* kResized[] = {"cpu", "memory"};

// Cores and memory of what runs are free to change, and nothing else is.
void take_sizes(json::object& spec, const json::value& wanted, const json::value& was) {
  for (const std::string_view list : kLists) {
    json::value* containers = spec.if_contains(list);
    const json::array &ask = list_in(wanted, list), &old = list_in(was, list);
    for (std::size_t i = 0; containers && i < old.size() && i < ask.size(); ++i)
      for (const char* key : {"resources", "resizePolicy"})
        take_over(containers->get_array()[i].as_object(), ask[i], key);
  }
}

void check_size_of(const json::value& now, const json::value& was, bool may, const std::string& path,
                   FieldErrors& out) {
  for (const char* which : {"limits", "requests"}) {
    const json::value &amounts = part(now, which), &before = part(was, which);
    std::set<std::string> names;
    for (const json::value* one : {&amounts, &before})
      if (one->is_object())
        for (const auto& [name, amount] : one->get_object()) names.insert(std::string(name));
    for (const std::string& name : names) {
      const auto has = quantity_in(amounts, name), had = quantity_in(before, name);
      const bool resized = std::ranges::find(kResized, name) != std::end(kResized);
      if (has.has_value() == had.has_value() && (!has || *has == *had))
        continue;
      if (!may || !resized)
        out.push_back(field_forbidden("spec", may ? "only cpu and memory resources are mutable"
                                                  : "resources for non-sidecar init containers are immutable"));
      else if (!has)
        out.push_back(field_forbidden(format("{}.{}", path, which), format("resource {} cannot be removed", which)));
    }
  }
}

// Containers have the places that they had: what is asked of each is told by its place.
bool same_order(const json::value& now, const json::value& was) {
  return std::ranges::all_of(kLists, [&](std::string_view list) {
    const json::array &ask = list_in(now, list), &old = list_in(was, list);
    return std::ranges::equal(
        ask, old, {}, [](const json::value& one) { return text_in(one, "name"); },
        [](const json::value& one) { return text_in(one, "name"); });
  });
}

void check_order(const json::object& pod, const json::object& old, FieldErrors& out) {
  for (const std::string_view list : {kLists[1], kLists[0]}) {
    const json::array &now = list_in(spec_of(pod), list), &was = list_in(spec_of(old), list);
    const std::string path = format("spec.{}", list);
    if (now.size() != was.size())
      out.push_back(field_forbidden(path, format("{} may not be added or removed on resize", list)));
    else
      for (std::size_t i = 0; i < now.size(); ++i)
        if (text_in(now[i], "name") != text_in(was[i], "name"))
          out.push_back(field_forbidden(format("{}[{}].name", path, i),
                                        format("{} may not be renamed or reordered on resize", list)));
  }
}

void check_resize(const json::object& pod, const json::object& old, FieldErrors& out) {
  if (qos_class(pod) != qos_class(old))
    out.push_back(
        field_invalid("spec", json::value(qos_class(pod)), "Pod QOS Class may not change as a result of resizing"));
  if (part(spec_of(pod), "resources").is_object() && !part(spec_of(pod), "resources").as_object().empty())
    out.push_back(field_forbidden("", "pods with pod-level resources cannot be resized"));
  if (!same_order(spec_of(pod), spec_of(old)))
    return check_order(pod, old, out);
  for (const std::string_view list : kLists) {
    const json::array &now = containers_in(pod, list), &was = containers_in(old, list);
    for (std::size_t i = 0; i < now.size() && i < was.size(); ++i) {
      const std::string path = format("spec.{}[{}]", list, i);
      check_amounts(now[i], path, out);
      check_size_of(part(now[i], "resources"), part(was[i], "resources"), list == kLists[1] || is_sidecar(was[i]),
                    path + ".resources", out);
    }
  }
}

// A grace that is less than none has always been one second.
void settle_grace(json::object& spec) {
  if (const auto grace = integer_in(spec, "terminationGracePeriodSeconds"); grace && *grace < 0)
    spec["terminationGracePeriodSeconds"] = 1;
}

// Keys whose values in the pod's own labels its terms ask of others become part of their selectors.
// Source: kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints, "matchLabelKeys".
void merge_keys(json::value& term, const json::value& labels) {
  json::value* selector = term.is_object() ? term.get_object().if_contains("labelSelector") : nullptr;
  if (!selector || !selector->is_object())
    return;
  for (const auto& [list, is] : {std::pair{"matchLabelKeys", "In"}, {"mismatchLabelKeys", "NotIn"}})
    for (const std::string& key : texts_in(term, list)) {
      const json::value* value = member(labels, key);
      if (!value || !value->is_string())
        continue;
      json::object rule{{"key", key}, {"operator", is}};
      rule["values"] = json::array{*value};
      json::value& rules = selector->get_object()["matchExpressions"];
      json::array& all = rules.is_array() ? rules.get_array() : rules.emplace_array();
      if (std::ranges::none_of(all, [&](const json::value& one) { return same_json(one, json::value(rule)); }))
        all.push_back(std::move(rule));
    }
}

void merge_label_keys(json::object& spec, const json::value& labels) {
  const auto each = [&](json::value* list, const char* inside) {
    if (list && list->is_array())
      for (json::value& one : list->get_array())
        if (json::value* term = *inside ? (one.is_object() ? one.get_object().if_contains(inside) : nullptr) : &one)
          merge_keys(*term, labels);
  };
  each(spec.if_contains("topologySpreadConstraints"), "");
  json::value* affinity = spec.if_contains("affinity");
  if (affinity && affinity->is_object())
    for (const char* kind : {"podAffinity", "podAntiAffinity"})
      if (json::value* terms = affinity->get_object().if_contains(kind); terms && terms->is_object()) {
        each(terms->get_object().if_contains("requiredDuringSchedulingIgnoredDuringExecution"), "");
        each(terms->get_object().if_contains("preferredDuringSchedulingIgnoredDuringExecution"), "podAffinityTerm");
      }
}

class PodRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override {
    settle_grace(object_in(tree, "spec"));
    tree["status"] = {{"phase", "Pending"}, {"qosClass", qos_class(tree)}};
    json::object& spec = object_in(tree, "spec");
    if (const json::value* grace = spec.if_contains("terminationGracePeriodSeconds");
        grace && grace->is_int64() && grace->get_int64() < 0)
      spec["terminationGracePeriodSeconds"] = 1;
    merge_label_keys(spec, part(part(tree, "metadata"), "labels"));
  }

  void prepare_update(json::object& tree, const json::object& old, std::string_view subresource) const override {
    json::object& spec = object_in(tree, "spec");
    settle_grace(spec);
    if (subresource.empty() || subresource == "status") {
      take_over(spec, spec_of(old), "ephemeralContainers");
      return;
    }
    if (subresource == "resize") {
      const json::value wanted = spec;
      if (!same_order(wanted, spec_of(old)))  // which is refused
        return;
      tree["spec"] = spec_of(old);
      take_sizes(object_in(tree, "spec"), wanted, spec_of(old));
      return;
    }
    if (subresource == "ephemeralcontainers") {
      const json::value wanted = part(json::value(spec), "ephemeralContainers");
      tree["spec"] = spec_of(old);
      if (wanted.is_array())
        object_in(tree, "spec")["ephemeralContainers"] = wanted;
    }
  }

  void validate_update(const json::object& tree, const json::object& old, std::string_view subresource,
                       FieldErrors& out) const override {
    if (subresource == "resize")
      return check_resize(tree, old, out);
    validate(tree, &old, out);
  }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    if (!old) {
      if (!list_in(spec_of(tree), "ephemeralContainers").empty())
        out.push_back(field_forbidden("spec.ephemeralContainers", "cannot be set on create"));
      return check_spec(tree, out);
    }
    if (same_json(spec_of(tree), spec_of(*old)))
      return;
    const json::value &now = spec_of(tree), &was = spec_of(*old);
    const bool debugged = !same_json(part(now, "ephemeralContainers"), part(was, "ephemeralContainers"));
    json::object kept = tree;
    take_over(object_in(kept, "spec"), was, "ephemeralContainers");
    if (debugged && !holds_all(list_in(now, "ephemeralContainers"), list_in(was, "ephemeralContainers")))
      out.push_back(field_forbidden("spec.ephemeralContainers", "existing ephemeral containers may not be changed"));
    if (debugged)
      check_added(tree, out);
    if (!same_json(spec_of(kept), was))
      check_changes(kept, *old, out);
  }
};

}  // namespace

const KindRules& pod_rules() {
  static const PodRules rules;
  return rules;
}

}  // namespace lockstep::kube
