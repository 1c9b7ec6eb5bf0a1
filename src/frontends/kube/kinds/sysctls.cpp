#include "frontends/kube/kinds/sysctls.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kSafe[] = {"kernel.shm_rmid_forced",
                                      "net.ipv4.ip_local_port_range",
                                      "net.ipv4.tcp_syncookies",
                                      "net.ipv4.ping_group_range",
                                      "net.ipv4.ip_unprivileged_port_start",
                                      "net.ipv4.ip_local_reserved_ports",
                                      "net.ipv4.tcp_keepalive_time",
                                      "net.ipv4.tcp_fin_timeout",
                                      "net.ipv4.tcp_keepalive_intvl",
                                      "net.ipv4.tcp_keepalive_probes",
                                      "net.ipv4.tcp_rmem",
                                      "net.ipv4.tcp_wmem"};

bool begins_with_any(const std::string& name, std::initializer_list<std::string_view> all) {
  return std::ranges::any_of(all, [&](std::string_view one) { return name.starts_with(one); });
}

}  // namespace

std::string sysctl_with_dots(std::string_view name) {
  std::string out(name);
  if (const std::size_t first = out.find_first_of("./"); first != out.npos && out[first] == '/')
    for (char& c : out) c = c == '/' ? '.' : c == '.' ? '/' : c;
  return out;
}

bool sysctl_is_safe(std::string_view name) { return std::ranges::find(kSafe, name) != std::end(kSafe); }

bool sysctl_is_of_network(std::string_view name) { return sysctl_with_dots(name).starts_with("net."); }

bool sysctl_is_of_ipc(std::string_view name) {
  return begins_with_any(sysctl_with_dots(name), {"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."});
}

NodeRefusal node_refusal(const json::object& pod) {
  const json::value &spec = spec_of(pod), &security = part(spec, "securityContext");
  for (const json::value& one : list_in(security, "sysctls"))
    if (const std::string name = text_in(one, "name"); !sysctl_is_safe(sysctl_with_dots(name)))
      return {"SysctlForbidden", format("forbidden sysctl: \"{}\" not allowlisted", name)};
  if (const std::string system = text_in(part(spec, "os"), "name"); !system.empty() && system != "linux")
    return {"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"};
  bool confined = text_in(part(security, "appArmorProfile"), "type") == "Localhost";
  for (const char* list : {"initContainers", "containers"})
    for (const json::value& one : containers_in(pod, list))
      confined = confined || text_in(part(part(one, "securityContext"), "appArmorProfile"), "type") == "Localhost";
  if (confined)
    return {"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"};
  return {};
}

}  // namespace lockstep::kube
