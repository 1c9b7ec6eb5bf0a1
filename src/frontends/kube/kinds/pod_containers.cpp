#include "frontends/kube/kinds/pod_containers.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_env.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kSecondsMax = 1'000'000'000;

Duration seconds_in(const json::value& value, std::string_view key, Duration otherwise) {
  const auto number = integer_in(value, key);
  return number ? seconds(std::clamp<std::int64_t>(*number, 0, kSecondsMax)) : otherwise;
}

std::uint32_t count_in(const json::value& value, std::string_view key, std::uint32_t otherwise) {
  const auto number = integer_in(value, key);
  return number ? static_cast<std::uint32_t>(std::clamp<std::int64_t>(*number, 0, INT32_MAX)) : otherwise;
}

std::vector<std::pair<std::string, std::string>> headers_in(const json::value& action) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const json::value& one : list_in(action, "httpHeaders"))
    out.emplace_back(text_in(one, "name"), text_in(one, "value"));
  return out;
}

// --- rights ---

// What the container says wins over what its pod says.
const json::value& setting(const json::value& own, const json::value& pod, std::string_view key) {
  const json::value& value = part(own, key);
  return value.is_null() ? part(pod, key) : value;
}

std::optional<std::uint32_t> id_of(const json::value& own, const json::value& pod, std::string_view key) {
  const auto own_id = integer_in(own, key), pod_id = integer_in(pod, key);
  const auto id = own_id ? own_id : pod_id;
  return id && *id >= 0 && *id <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(*id)) : std::nullopt;
}

std::vector<std::string> capabilities_in(const json::value& own, std::string_view which) {
  std::vector<std::string> out = texts_in(part(own, "capabilities"), which);
  for (std::string& name : out)
    if (name.starts_with("CAP_"))
      name.erase(0, 4);
  return out;
}

ContainerRights rights_of(const json::object& pod, const json::value& container) {
  const json::value& all = part(spec_of(pod), "securityContext");
  const json::value& own = part(container, "securityContext");
  ContainerRights out;
  out.uid = id_of(own, all, "runAsUser");
  out.gid = id_of(own, all, "runAsGroup");
  for (const json::value& one : list_in(all, "supplementalGroups"))
    if (is_number(one) && number_of(one) >= 0 && number_of(one) <= UINT32_MAX)
      out.groups.push_back(static_cast<std::uint32_t>(number_of(one)));
  out.privileged = flag_in(own, "privileged");
  out.add_capabilities = capabilities_in(own, "add");
  out.drop_capabilities = capabilities_in(own, "drop");
  const json::value& escalation = part(own, "allowPrivilegeEscalation");
  out.no_new_privileges = escalation.is_bool() && !escalation.get_bool();
  out.read_only_root = flag_in(own, "readOnlyRootFilesystem");
  const json::value& never_root = setting(own, all, "runAsNonRoot");
  out.never_root = never_root.is_bool() && never_root.get_bool();
  out.only_given_groups = text_in(all, "supplementalGroupsPolicy") == "Strict";
  const json::value& seccomp = setting(own, all, "seccompProfile");
  const std::string type = text_in(seccomp, "type");
  if (type == "Unconfined")
    out.seccomp = "unconfined";
  else if (type == "Localhost")
    out.seccomp = text_in(seccomp, "localhostProfile");
  return out;
}

// --- probes and hooks ---

void add_probe(std::vector<Probe>& out, const json::value& container, std::string_view key, Probe::What what) {
  const json::value& asked = part(container, key);
  if (!asked.is_object())
    return;
  Probe probe;
  probe.what = what;
  const json::value &http = part(asked, "httpGet"), &tcp = part(asked, "tcpSocket"), &grpc = part(asked, "grpc");
  if (http.is_object()) {
    probe.how = Probe::How::kHttp;
    probe.path = text_in(http, "path").empty() ? "/" : text_in(http, "path");
    probe.port = port_of(container, part(http, "port"));
    probe.host = text_in(http, "host");
    probe.tls = text_in(http, "scheme") == "HTTPS";
    probe.headers = headers_in(http);
  } else if (tcp.is_object()) {
    probe.how = Probe::How::kTcp;
    probe.port = port_of(container, part(tcp, "port"));
    probe.host = text_in(tcp, "host");
  } else if (grpc.is_object()) {
    probe.how = Probe::How::kGrpc;
    probe.port = port_of(container, part(grpc, "port"));
    probe.service = text_in(grpc, "service");
  } else {
    probe.how = Probe::How::kExec;
    probe.argv = texts_in(part(asked, "exec"), "command");
    if (probe.argv.empty())
      return;
  }
  probe.initial_delay = seconds_in(asked, "initialDelaySeconds", {});
  probe.period = std::max(seconds(1), seconds_in(asked, "periodSeconds", seconds(10)));
  probe.timeout = std::max(seconds(1), seconds_in(asked, "timeoutSeconds", seconds(1)));
  probe.failures = std::max(1u, count_in(asked, "failureThreshold", 3));
  probe.successes = std::max(1u, count_in(asked, "successThreshold", 1));
  probe.kill_wait = seconds_in(asked, "terminationGracePeriodSeconds", kForever);
  out.push_back(std::move(probe));
}

ContainerHook hook_of(const json::value& container, std::string_view key) {
  const json::value& asked = part(part(container, "lifecycle"), key);
  ContainerHook out;
  if (const json::value& exec = part(asked, "exec"); exec.is_object()) {
    out.argv = texts_in(exec, "command");
    out.how = out.argv.empty() ? ContainerHook::How::kNone : ContainerHook::How::kExec;
  } else if (const json::value& http = part(asked, "httpGet"); http.is_object()) {
    out.how = ContainerHook::How::kHttp;
    out.host = text_in(http, "host");
    out.path = text_in(http, "path").empty() ? "/" : text_in(http, "path");
    out.port = port_of(container, part(http, "port"));
    out.tls = text_in(http, "scheme") == "HTTPS";
    out.headers = headers_in(http);
  } else if (const json::value& sleep = part(asked, "sleep"); sleep.is_object()) {
    out.how = ContainerHook::How::kSleep;
    out.sleep = seconds_in(sleep, "seconds", {});
  }
  return out;
}

// --- what runs ---

bool leads_out(const std::string& path) {
  const auto names = split(path, '/');
  return path.starts_with('/') || std::ranges::find(names, "..") != names.end();
}

// The image's own program runs unless a command is given; its arguments go where others are given.
void set_program(SandboxContainer& out, const json::value& container) {
  Variables known;
  for (const auto& [name, value] : out.env) known[name] = value;
  const bool has_command = !list_in(container, "command").empty();
  for (const char* list : {"command", "args"})
    for (const json::value& one : list_in(container, list))
      out.argv.push_back(expanded(text_of(one), known).value_or(std::string(text_of(one))));
  out.container.entrypoint = !has_command && !out.argv.empty();
  out.container.image = "docker://" + text_in(container, "image");
  out.container.work_dir = text_in(container, "workingDir");
  out.container.writable = !out.rights.read_only_root;
  for (const json::value& one : list_in(container, "volumeMounts")) {
    Mount mount;
    std::string inside = text_in(one, "subPath");
    if (const std::string pattern = text_in(one, "subPathExpr"); !pattern.empty())
      inside = expanded(pattern, known).value_or(pattern);
    if (leads_out(inside))  // the container waits, and says why (server/pod_files)
      inside.clear();
    mount.source = std::string(kVolumePrefix) + text_in(one, "name") + (inside.empty() ? "" : "/" + inside);
    mount.target = text_in(one, "mountPath");
    mount.read_only = flag_in(one, "readOnly");
    const std::string how = text_in(one, "mountPropagation");
    if (how == "HostToContainer")
      mount.options = {"rslave"};
    else if (how == "Bidirectional")
      mount.options = {"rshared"};
    out.container.mounts.push_back(std::move(mount));
  }
}

void set_placed(SandboxContainer& out, const json::value& container) {
  using What = PlacedVariable::What;
  constexpr std::pair<std::string_view, What> kPlaced[] = {{"status.podIP", What::kTaskAddress},
                                                           {"status.podIPs", What::kTaskAddress},
                                                           {"status.hostIP", What::kNodeAddress},
                                                           {"status.hostIPs", What::kNodeAddress},
                                                           {"spec.nodeName", What::kNodeName}};
  for (const json::value& one : list_in(container, "env")) {
    const std::string path = text_in(part(part(one, "valueFrom"), "fieldRef"), "fieldPath");
    for (const auto& [field, what] : kPlaced)
      if (path == field)
        out.placed_env.push_back({what, text_in(one, "name")});
  }
}

void set_limits(SandboxContainer& out, const json::value& container) {
  const json::value& resources = part(container, "resources");
  const SandboxAmounts amounts = amounts_asked(container);
  out.milli_cores = amounts.milli_cores;
  out.cpu_weight = amounts.cpu_weight;
  out.memory_bytes = amounts.memory_bytes;
  if (const auto disk = quantity_in(part(resources, "limits"), "ephemeral-storage"); disk && disk->sign() > 0)
    out.disk_bytes = static_cast<std::uint64_t>(disk->whole());
  for (const json::value& one : list_in(container, "resizePolicy"))
    if (text_in(one, "restartPolicy") == "RestartContainer")
      (text_in(one, "resourceName") == "memory" ? out.anew_for_memory : out.anew_for_cores) = true;
}

RestartRule restart_of(const json::object& pod, const json::value& container, ContainerKind kind) {
  if (kind == ContainerKind::kAdded)
    return RestartRule::kNever;
  const std::string rule = text_in(spec_of(pod), "restartPolicy");
  if (kind == ContainerKind::kInit)
    return rule == "Never" ? RestartRule::kNever : RestartRule::kOnFailure;
  const std::string own = text_in(container, "restartPolicy");
  const std::string& word = own.empty() ? rule : own;
  return word == "Never" ? RestartRule::kNever : word == "OnFailure" ? RestartRule::kOnFailure : RestartRule::kAlways;
}

SandboxContainer container_of(const json::object& pod, const json::value& container, ContainerKind kind) {
  SandboxContainer out;
  out.name = text_in(container, "name");
  out.kind = kind;
  out.restart = restart_of(pod, container, kind);
  out.env = plain_variables(pod, container);
  out.rights = rights_of(pod, container);
  set_program(out, container);
  set_placed(out, container);
  set_limits(out, container);
  if (kind == ContainerKind::kAdded)
    out.sees_processes_of = text_in(container, "targetContainerName");
  if (kind != ContainerKind::kInit && kind != ContainerKind::kAdded) {
    add_probe(out.probes, container, "startupProbe", Probe::What::kStartup);
    add_probe(out.probes, container, "readinessProbe", Probe::What::kReadiness);
    add_probe(out.probes, container, "livenessProbe", Probe::What::kLiveness);
    out.begun = hook_of(container, "postStart");
    out.ending = hook_of(container, "preStop");
  }
  out.message_file = text_in(container, "terminationMessagePath");
  out.message_from_log = text_in(container, "terminationMessagePolicy") == "FallbackToLogsOnError";
  out.keeps_input = flag_in(container, "stdin");
  out.input_ends_once = flag_in(container, "stdinOnce");
  out.terminal = flag_in(container, "tty");
  using enum SandboxContainer::Fetch;
  const std::string pull = text_in(container, "imagePullPolicy");
  out.fetch = pull == "Always" ? kAlways : pull == "Never" ? kNever : kMissing;
  return out;
}

}  // namespace

SandboxAmounts amounts_asked(const json::value& container) {
  const json::value& resources = part(container, "resources");
  const auto milli = [](const std::optional<Quantity>& amount) {
    return amount ? static_cast<std::uint32_t>(std::clamp<std::int64_t>(amount->thousandths(), 0, 1'000'000)) : 0u;
  };
  SandboxAmounts out;
  out.milli_cores = milli(quantity_in(part(resources, "limits"), "cpu"));
  out.cpu_weight = milli(quantity_in(part(resources, "requests"), "cpu"));
  if (const auto memory = quantity_in(part(resources, "limits"), "memory"); memory && memory->sign() > 0)
    out.memory_bytes = static_cast<std::uint64_t>(memory->whole());
  return out;
}

std::uint16_t port_of(const json::value& container, const json::value& port) {
  std::int64_t number = is_number(port) ? static_cast<std::int64_t>(number_of(port)) : 0;
  if (port.is_string()) {
    number = parse_int(text_of(port)).value_or(0);
    for (const json::value& one : list_in(container, "ports"))
      if (text_in(one, "name") == text_of(port))
        number = integer_in(one, "containerPort").value_or(0);
  }
  return number > 0 && number <= UINT16_MAX ? static_cast<std::uint16_t>(number) : std::uint16_t{0};
}

std::vector<SandboxContainer> containers_of_pod(const json::object& pod) {
  std::vector<SandboxContainer> out;
  for (const json::value& one : containers_in(pod, "initContainers"))
    out.push_back(container_of(pod, one, is_sidecar(one) ? ContainerKind::kSidecar : ContainerKind::kInit));
  for (const json::value& one : containers_in(pod, "containers"))
    out.push_back(container_of(pod, one, ContainerKind::kMain));
  return out;
}

std::vector<SandboxContainer> added_containers_of(const json::object& pod) {
  std::vector<SandboxContainer> out;
  for (const json::value& one : containers_in(pod, "ephemeralContainers"))
    out.push_back(container_of(pod, one, ContainerKind::kAdded));
  return out;
}

}  // namespace lockstep::kube
