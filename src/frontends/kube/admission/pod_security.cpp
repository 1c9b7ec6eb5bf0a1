#include "frontends/kube/admission/pod_security.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_templates.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/store/stored_object.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr std::uint32_t kNewest = 34;                    // the minor version that "latest" means
constexpr std::size_t kCheckedMax = 300, kToldMax = 16;  // pods that are there, when a namespace changes its level
constexpr const char* kLabel = "pod-security.kubernetes.io/";

using Names = std::vector<std::string>;
using Values = std::set<std::string>;

std::string quoted_list(const auto& names) {
  std::string out;
  for (const std::string& name : names) out += format("{}\"{}\"", out.empty() ? "" : ", ", name);
  return out;
}
std::string_view plural(std::size_t count, std::string_view one, std::string_view many) {
  return count == 1 ? one : many;
}
std::string containers_text(const Names& names) {
  return format("{} {}", plural(names.size(), "container", "containers"), quoted_list(names));
}
// "pod and container "a"", for those that set something by themselves.
std::string setters_text(bool pod, const Names& containers) {
  Names out;
  if (pod)
    out.emplace_back("pod");
  if (!containers.empty())
    out.push_back(containers_text(containers));
  return join(out, " and ");
}

// Why a check fails: "hostPort" and what stands in brackets behind it.
struct Failure {
  std::string reason, detail;
};
using Verdict = std::optional<Failure>;

class Pod {
 public:
  explicit Pod(const json::object& tree) : spec_(spec_of(tree)), metadata_(part(tree, "metadata")) {}

  const json::value& spec() const { return spec_; }
  const json::value& metadata() const { return metadata_; }
  const json::value& security() const { return part(spec_, "securityContext"); }

  // visit: of a container and its security context.
  void each(const std::function<void(const json::value&, const json::value&)>& visit) const {
    for (const char* list : {"initContainers", "containers", "ephemeralContainers"})
      for (const json::value& one : list_in(spec_, list)) visit(one, part(one, "securityContext"));
  }
  Names that(const std::function<bool(const json::value&, const json::value&)>& is) const {
    Names out;
    each([&](const json::value& container, const json::value& security) {
      if (is(container, security))
        out.push_back(text_in(container, "name"));
    });
    return out;
  }

 private:
  const json::value& spec_;
  const json::value& metadata_;
};

bool is_true(const json::value& value) { return value.is_bool() && value.get_bool(); }
bool is_false(const json::value& value) { return value.is_bool() && !value.get_bool(); }
bool is_zero(const json::value& value) { return is_number(value) && number_of(value) == 0; }

// --- baseline ---

Verdict host_namespaces(const Pod& pod) {
  Names bad;
  for (const char* name : {"hostNetwork", "hostPID", "hostIPC"})
    if (is_true(part(pod.spec(), name)))
      bad.push_back(std::string(name) + "=true");
  return bad.empty() ? Verdict() : Failure{"host namespaces", join(bad, ", ")};
}

Verdict privileged(const Pod& pod) {
  const Names bad = pod.that([](auto&, auto& security) { return is_true(part(security, "privileged")); });
  return bad.empty() ? Verdict()
                     : Failure{"privileged", containers_text(bad) + " must not set securityContext.privileged=true"};
}

Verdict baseline_capabilities(const Pod& pod) {
  static const std::set<std::string, std::less<>> kAllowed = {
      "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER",  "FSETID", "KILL",      "MKNOD",
      "NET_BIND_SERVICE", "SETFCAP", "SETGID",       "SETPCAP", "SETUID", "SYS_CHROOT"};
  Values added;
  const Names bad = pod.that([&](auto&, auto& security) {
    bool any = false;
    for (const std::string& one : texts_in(part(security, "capabilities"), "add"))
      if (!kAllowed.contains(one)) {
        any = true;
        added.insert(one);
      }
    return any;
  });
  return bad.empty()
             ? Verdict()
             : Failure{"non-default capabilities", format("{} must not include {} in securityContext.capabilities.add",
                                                          containers_text(bad), quoted_list(added))};
}

Verdict host_paths(const Pod& pod) {
  Names bad;
  for (const json::value& volume : list_in(pod.spec(), "volumes"))
    if (part(volume, "hostPath").is_object())
      bad.push_back(text_in(volume, "name"));
  return bad.empty()
             ? Verdict()
             : Failure{"hostPath volumes", format("{} {}", plural(bad.size(), "volume", "volumes"), quoted_list(bad))};
}

Verdict host_ports(const Pod& pod) {
  Values ports;
  const Names bad = pod.that([&](auto& container, auto&) {
    bool any = false;
    for (const json::value& port : list_in(container, "ports"))
      if (const auto number = integer_in(port, "hostPort"); number && *number != 0) {
        any = true;
        ports.insert(std::to_string(*number));
      }
    return any;
  });
  if (bad.empty())
    return std::nullopt;
  return Failure{"hostPort",
                 format("{} {} {} {}", containers_text(bad), plural(bad.size(), "uses", "use"),
                        plural(ports.size(), "hostPort", "hostPorts"), join(Names(ports.begin(), ports.end()), ", "))};
}

Verdict probe_hosts(const Pod& pod) {
  Values hosts, names;
  pod.each([&](const json::value& container, const json::value&) {
    const json::value& life = part(container, "lifecycle");
    for (const json::value* one : {&part(container, "livenessProbe"), &part(container, "readinessProbe"),
                                   &part(container, "startupProbe"), &part(life, "postStart"), &part(life, "preStop")})
      for (const char* how : {"httpGet", "tcpSocket"})
        if (const std::string host = text_in(part(*one, how), "host"); !host.empty()) {
          hosts.insert(host);
          names.insert(text_in(container, "name"));
        }
  });
  if (names.empty())
    return std::nullopt;
  return Failure{
      "probe or lifecycle host",
      format("{} {} {} {}", containers_text({names.begin(), names.end()}), plural(names.size(), "uses", "use"),
             plural(hosts.size(), "probe or lifecycle host", "probe or lifecycle hosts"), quoted_list(hosts))};
}

Verdict app_armor(const Pod& pod) {
  Values values;
  const auto bad_type = [&](const json::value& security) {
    const json::value& profile = part(security, "appArmorProfile");
    const std::string type = text_in(profile, "type");
    if (!profile.is_object() || type == "RuntimeDefault" || type == "Localhost")
      return false;
    values.insert(type);
    return true;
  };
  const bool own = bad_type(pod.security());
  const Names bad = pod.that([&](auto&, auto& security) { return bad_type(security); });
  Names all(values.begin(), values.end()), notes;
  if (const json::object* annotations = member_object(pod.metadata(), "annotations"))
    for (const auto& [key, value] : *annotations) {
      const std::string_view text = text_of(value);
      if (std::string_view(key).starts_with("container.apparmor.security.beta.kubernetes.io/") && !text.empty() &&
          text != "runtime/default" && !text.starts_with("localhost/"))
        notes.push_back(format("{}=\"{}\"", std::string_view(key), text));
    }
  std::ranges::sort(notes);
  all.insert(all.end(), notes.begin(), notes.end());
  if (all.empty())
    return std::nullopt;
  std::string setters = setters_text(own, bad);
  if (!notes.empty())
    setters += format("{}{}", setters.empty() ? "" : " and ", plural(notes.size(), "annotation", "annotations"));
  return Failure{std::string(plural(all.size(), "forbidden AppArmor profile", "forbidden AppArmor profiles")),
                 format("{} must not set AppArmor profile type to {}", setters, quoted_list(all))};
}

Verdict proc_mount(const Pod& pod) {
  Values types;
  const Names bad = pod.that([&](auto&, auto& security) {
    const std::string type = text_in(security, "procMount");
    if (type.empty() || type == "Default")
      return false;
    types.insert(type);
    return true;
  });
  return bad.empty() ? Verdict()
                     : Failure{"procMount", format("{} must not set securityContext.procMount to {}",
                                                   containers_text(bad), quoted_list(types))};
}

bool good_seccomp(const json::value& profile) {
  const std::string type = text_in(profile, "type");
  return type == "RuntimeDefault" || type == "Localhost";
}

// Who sets a profile that is not allowed.
Verdict set_seccomp(const Pod& pod) {
  Values types;
  const auto bad_type = [&](const json::value& security) {
    const json::value& profile = part(security, "seccompProfile");
    if (!profile.is_object() || good_seccomp(profile))
      return false;
    types.insert(text_in(profile, "type"));
    return true;
  };
  const bool own = bad_type(pod.security());
  const Names bad = pod.that([&](auto&, auto& security) { return bad_type(security); });
  const std::string setters = setters_text(own, bad);
  return setters.empty() ? Verdict()
                         : Failure{"seccompProfile", format("{} must not set securityContext.seccompProfile.type to {}",
                                                            setters, quoted_list(types))};
}

Verdict selinux(const Pod& pod) {
  static const std::set<std::string, std::less<>> kAllowed = {"", "container_t", "container_init_t", "container_kvm_t",
                                                              "container_engine_t"};
  Values types;
  bool user = false, role = false;
  const auto bad_options = [&](const json::value& security) {
    const json::value& options = part(security, "seLinuxOptions");
    const std::string type = text_in(options, "type");
    const bool bad_type = !kAllowed.contains(type), sets_user = !text_in(options, "user").empty(),
               sets_role = !text_in(options, "role").empty();
    if (bad_type)
      types.insert(type);
    user |= sets_user;
    role |= sets_role;
    return bad_type || sets_user || sets_role;
  };
  const bool own = bad_options(pod.security());
  const Names bad = pod.that([&](auto&, auto& security) { return bad_options(security); });
  const std::string setters = setters_text(own, bad);
  if (setters.empty())
    return std::nullopt;
  Names what;
  if (!types.empty())
    what.push_back(format("{} {}", plural(types.size(), "type", "types"), quoted_list(types)));
  if (user)
    what.emplace_back("user may not be set");
  if (role)
    what.emplace_back("role may not be set");
  return Failure{"seLinuxOptions",
                 format("{} set forbidden securityContext.seLinuxOptions: {}", setters, join(what, "; "))};
}

Verdict sysctls(const Pod& pod) {
  Names bad;
  for (const json::value& one : list_in(pod.security(), "sysctls"))
    if (const std::string name = text_in(one, "name"); !sysctl_is_safe(name))
      bad.push_back(name);
  return bad.empty() ? Verdict() : Failure{"forbidden sysctls", join(bad, ", ")};
}

Verdict host_process(const Pod& pod) {
  const auto asks = [](const json::value& security) {
    return is_true(part(part(security, "windowsOptions"), "hostProcess"));
  };
  const bool own = asks(pod.security());
  const Names bad = pod.that([&](auto&, auto& security) { return asks(security); });
  const std::string setters = setters_text(own, bad);
  return setters.empty() ? Verdict()
                         : Failure{"hostProcess",
                                   format("{} must not set securityContext.windowsOptions.hostProcess=true", setters)};
}

// --- restricted ---

Verdict escalation(const Pod& pod) {
  const Names bad =
      pod.that([](auto&, auto& security) { return !is_false(part(security, "allowPrivilegeEscalation")); });
  return bad.empty() ? Verdict()
                     : Failure{"allowPrivilegeEscalation != false",
                               containers_text(bad) + " must set securityContext.allowPrivilegeEscalation=false"};
}

Verdict restricted_capabilities(const Pod& pod) {
  Values added;
  const Names keep = pod.that([](auto&, auto& security) {
    const auto dropped = texts_in(part(security, "capabilities"), "drop");
    return std::ranges::find(dropped, "ALL") == dropped.end();
  });
  const Names add = pod.that([&](auto&, auto& security) {
    bool any = false;
    for (const std::string& one : texts_in(part(security, "capabilities"), "add"))
      if (one != "NET_BIND_SERVICE") {
        any = true;
        added.insert(one);
      }
    return any;
  });
  Names what;
  if (!keep.empty())
    what.push_back(containers_text(keep) + " must set securityContext.capabilities.drop=[\"ALL\"]");
  if (!add.empty())
    what.push_back(
        format("{} must not include {} in securityContext.capabilities.add", containers_text(add), quoted_list(added)));
  return what.empty() ? Verdict() : Failure{"unrestricted capabilities", join(what, "; ")};
}

Verdict volume_types(const Pod& pod) {
  constexpr const char* kAllowed[] = {"configMap", "csi",   "downwardAPI",           "emptyDir",
                                      "ephemeral", "image", "persistentVolumeClaim", "projected",
                                      "secret"};
  Names bad;
  Values types;
  for (const json::value& volume : list_in(pod.spec(), "volumes")) {
    if (!volume.is_object() ||
        std::ranges::any_of(kAllowed, [&](const char* type) { return volume.get_object().contains(type); }))
      continue;
    bad.push_back(text_in(volume, "name"));
    std::string type = "unknown";
    for (const auto& [name, source] : volume.get_object())
      if (name != "name" && source.is_object())
        type = name;
    types.insert(type);
  }
  if (bad.empty())
    return std::nullopt;
  return Failure{"restricted volume types",
                 format("{} {} {} {} {}", plural(bad.size(), "volume", "volumes"), quoted_list(bad),
                        plural(bad.size(), "uses", "use"),
                        plural(types.size(), "restricted volume type", "restricted volume types"), quoted_list(types))};
}

Verdict non_root(const Pod& pod) {
  const json::value& whole = part(pod.security(), "runAsNonRoot");
  const Names against = pod.that([](auto&, auto& security) { return is_false(part(security, "runAsNonRoot")); });
  if (const std::string setters = setters_text(is_false(whole), against); !setters.empty())
    return Failure{"runAsNonRoot != true", setters + " must not set securityContext.runAsNonRoot=false"};
  const Names open =
      pod.that([&](auto&, auto& security) { return !is_true(whole) && !part(security, "runAsNonRoot").is_bool(); });
  return open.empty() ? Verdict()
                      : Failure{"runAsNonRoot != true",
                                format("pod or {} must set securityContext.runAsNonRoot=true", containers_text(open))};
}

Verdict root_user(const Pod& pod) {
  const Names bad = pod.that([](auto&, auto& security) { return is_zero(part(security, "runAsUser")); });
  const std::string setters = setters_text(is_zero(part(pod.security(), "runAsUser")), bad);
  return setters.empty() ? Verdict() : Failure{"runAsUser=0", setters + " must not set runAsUser=0"};
}

Verdict restricted_seccomp(const Pod& pod) {
  if (auto set = set_seccomp(pod))
    return set;
  const bool whole = good_seccomp(part(pod.security(), "seccompProfile"));
  const Names open =
      pod.that([&](auto&, auto& security) { return !whole && !part(security, "seccompProfile").is_object(); });
  return open.empty()
             ? Verdict()
             : Failure{
                   "seccompProfile",
                   format(
                       "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
                       containers_text(open))};
}

struct Check {
  PodLevel level;
  std::uint32_t since;  // minor version
  bool for_windows;     // what a Windows pod cannot say is not asked of it
  Verdict (*holds)(const Pod&);
  bool replaced = false;  // by a stricter check at the level restricted
};

// In the order of their names, in which their findings are told.
constexpr Check kChecks[] = {
    {PodLevel::kRestricted, 8, false, escalation},
    {PodLevel::kBaseline, 0, true, app_armor},
    {PodLevel::kBaseline, 0, true, baseline_capabilities, true},
    {PodLevel::kRestricted, 22, false, restricted_capabilities},
    {PodLevel::kBaseline, 0, true, host_namespaces},
    {PodLevel::kBaseline, 0, true, host_paths, true},
    {PodLevel::kBaseline, 0, true, host_ports},
    {PodLevel::kBaseline, 34, true, probe_hosts},
    {PodLevel::kBaseline, 0, true, privileged},
    {PodLevel::kBaseline, 0, true, proc_mount},
    {PodLevel::kRestricted, 0, true, volume_types},
    {PodLevel::kRestricted, 0, true, non_root},
    {PodLevel::kRestricted, 23, true, root_user},
    {PodLevel::kBaseline, 0, true, selinux},
    {PodLevel::kBaseline, 0, true, set_seccomp, true},
    {PodLevel::kRestricted, 19, false, restricted_seccomp},
    {PodLevel::kBaseline, 0, true, sysctls},
    {PodLevel::kBaseline, 0, true, host_process},
};

// --- labels ---

struct Level {
  PodLevel level = PodLevel::kPrivileged;
  std::uint32_t minor = kNewest;
  std::string text;  // "baseline:latest"
};

Level level_of(const Object& ns, std::string_view mode) {
  Level out;
  std::string level, version;
  if (ns.meta.extra)
    for (const auto& [key, value] : ns.meta.extra->labels) {
      if (key == kLabel + std::string(mode))
        level = value;
      if (key == kLabel + std::string(mode) + "-version")
        version = value;
    }
  if (level == "baseline")
    out.level = PodLevel::kBaseline;
  else if (level == "restricted")
    out.level = PodLevel::kRestricted;
  if (version.starts_with("v1."))
    out.minor =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(parse_uint(version.substr(3)).value_or(kNewest), kNewest));
  out.text = format("{}:{}", level, version.empty() ? "latest" : version);
  return out;
}

}  // namespace

std::string level_faults(PodLevel level, std::uint32_t minor, const json::object& tree) {
  const Pod pod(tree);
  const bool windows = text_in(part(pod.spec(), "os"), "name") == "windows";
  Names out;
  for (const Check& check : kChecks) {
    if (check.level > level || check.since > minor || (windows && !check.for_windows && minor >= 25) ||
        (check.replaced && level == PodLevel::kRestricted))
      continue;
    if (const Verdict found = check.holds(pod))
      out.push_back(found->detail.empty() ? found->reason : format("{} ({})", found->reason, found->detail));
  }
  return join(out, ", ");
}

std::optional<Status> check_pod_security(const Tables& tables, std::string_view type, const json::object& tree,
                                         std::vector<std::string>& warnings) {
  const bool is_pod = type == "pods";
  const std::vector<std::string> path = path_to_pod(type);
  if (!is_pod && path.empty())
    return std::nullopt;
  const std::string ns = text_in(part(tree, "metadata"), "namespace");
  const auto room = tables.objects.find({"namespaces", "", ns});
  if (room == tables.objects.end())
    return std::nullopt;
  const json::object* pod = &tree;
  for (const std::string& step : path)
    if (pod)
      pod = member_object(*pod, step);
  if (!pod)
    return std::nullopt;
  if (is_pod)
    if (const Level enforced = level_of(*room->second, "enforce"); enforced.level != PodLevel::kPrivileged)
      if (const std::string faults = level_faults(enforced.level, enforced.minor, *pod); !faults.empty())
        return Status::forbidden({"", "pods"}, text_in(part(tree, "metadata"), "name"),
                                 format("violates PodSecurity \"{}\": {}", enforced.text, faults));
  if (const Level warned = level_of(*room->second, "warn"); warned.level != PodLevel::kPrivileged)
    if (const std::string faults = level_faults(warned.level, warned.minor, *pod); !faults.empty())
      warnings.push_back(format("would violate PodSecurity \"{}\": {}", warned.text, faults));
  return std::nullopt;
}

std::vector<std::string> warnings_of_level(const Tables& tables, const Object& ns, const Object& before) {
  const Level now = level_of(ns, "enforce"), then = level_of(before, "enforce");
  if (now.level == PodLevel::kPrivileged || (now.level == then.level && now.minor == then.minor))
    return {};
  struct Found {
    std::string first;  // pod, by name
    std::size_t count = 0;
  };
  std::map<std::string, Found> found;
  std::size_t checked = 0, all = 0;
  const std::string type = "pods";
  for (auto at = tables.objects.lower_bound({type, ns.meta.name, ""});
       at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns.meta.name; ++at) {
    if (++all > kCheckedMax)
      continue;
    ++checked;
    const json::value body = parse_own(at->second->body.get());
    if (std::string faults = level_faults(now.level, now.minor, body.as_object()); !faults.empty())
      if (Found& one = found[std::move(faults)]; one.count++ == 0)
        one.first = at->second->meta.name;
  }
  std::vector<std::string> out;
  if (checked < all)
    out.push_back(
        format("new PodSecurity enforce level only checked against the first {} of {} existing pods", checked, all));
  if (!found.empty())
    out.push_back(format("existing pods in namespace {} violate the new PodSecurity enforce level \"{}\"",
                         quoted(ns.meta.name), now.text));
  const std::size_t fixed = out.size();
  for (const auto& [faults, pods] : found)
    if (out.size() < fixed + kToldMax)
      out.push_back(pods.count == 1   ? format("{}: {}", pods.first, faults)
                    : pods.count == 2 ? format("{} (and 1 other pod): {}", pods.first, faults)
                                      : format("{} (and {} other pods): {}", pods.first, pods.count - 1, faults));
  std::sort(out.begin() + static_cast<std::ptrdiff_t>(fixed), out.end());
  return out;
}

}  // namespace lockstep::kube
