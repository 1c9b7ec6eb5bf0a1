#include "frontends/kube/kinds/pod_job.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/kinds/pod_containers.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu", kMig = "nvidia.com/mig-";
constexpr std::size_t kHostNameMax = 63;
constexpr std::int64_t kMegabyte = 1 << 20, kCountMax = 1'000'000;

// --- amounts ---

// Memory is what the containers may take. It is granted, and so counted on the node, where each of them has a limit;
// else they share what is there, as Kubernetes lets them.
std::int64_t memory_mb_of(const json::object& pod) {
  for (const json::value& one : containers_in(pod, "containers"))
    if (!quantity_in(part(part(one, "resources"), "limits"), "memory"))
      return 0;
  const Amounts limits = pod_sums(pod, "limits");
  const auto memory = limits.find("memory");
  return memory == limits.end() ? 0 : (memory->second.whole() + kMegabyte - 1) / kMegabyte;
}

Result<void> set_amounts(GroupSpec& group, const json::object& pod) {
  Resources& needs = group.per_task;
  for (const auto& [name, amount] : pod_sums(pod, "requests")) {
    if (name == "cpu") {
      // Cores are whole: a pod that asks for less than one shares what is there with the others.
      const std::int64_t milli = amount.thousandths();
      needs.cores = milli < 1000 ? 0 : static_cast<std::uint32_t>(std::min((milli + 999) / 1000, kCountMax));
    } else if (amount.sign() > 0 && name.find('/') != name.npos) {
      if (!amount.is_whole() || amount.whole() > kCountMax)
        return invalid(format("{} of {} cannot be given: whole numbers up to {} can", amount.text(), name, kCountMax),
                       "spec.containers");
      const auto count = static_cast<std::uint32_t>(amount.whole());
      if (name == kGpu)
        needs.devices.push_back({.count = count});
      else if (name.starts_with(kMig))
        needs.devices.push_back({.count = count, .mig = name.substr(kMig.size())});
      else
        needs.counted.push_back({name, amount.whole()});
    }
  }
  group.overcommit = needs.cores == 0;
  needs.memory_mb = memory_mb_of(pod);
  return {};
}

// --- volumes ---

SandboxVolume volume_of(const json::value& volume, const PodSite& site) {
  using enum SandboxVolume::Kind;
  SandboxVolume out;
  out.name = text_in(volume, "name");
  const auto claim = site.claims.find(out.name);
  if (const json::value& own = part(volume, "emptyDir"); own.is_object()) {
    out.kind = text_in(own, "medium") == "Memory" ? kMemory : kDisk;
    if (const auto bound = quantity_in(own, "sizeLimit"); bound && bound->sign() > 0)
      out.bytes_max = static_cast<std::uint64_t>(bound->whole());
  } else if (const json::value& host = part(volume, "hostPath"); host.is_object()) {
    out.kind = kHost;
    out.path = text_in(host, "path");
    out.path_type = text_in(host, "type");
  } else if (claim != site.claims.end()) {
    out.kind = kHost;
    out.path = claim->second;
    out.path_type = "DirectoryOrCreate";
  } else if (std::ranges::any_of(std::initializer_list<const char*>{"configMap", "secret", "projected", "downwardAPI"},
                                 [&](const char* kind) { return part(volume, kind).is_object(); })) {
    out.kind = kFiles;
  }
  return out;  // of other kinds: the front end says that it waits
}

// --- names and network ---

std::vector<HostAlias> aliases_of(const json::value& spec) {
  std::vector<HostAlias> out;
  for (const json::value& one : list_in(spec, "hostAliases"))
    out.push_back({text_in(one, "ip"), texts_in(one, "hostnames")});
  return out;
}

// Source: kubernetes.io/docs/concepts/services-networking/dns-pod-service ("Pod's DNS Policy", "Pod's DNS Config").
NameLookup lookup_of(const json::object& pod, const PodSite& site) {
  const json::value& spec = spec_of(pod);
  const std::string policy = text_in(spec, "dnsPolicy"), ns = text_in(part(pod, "metadata"), "namespace");
  const bool on_node = flag_in(spec, "hostNetwork") ? policy != "ClusterFirstWithHostNet" : policy == "Default";
  NameLookup out;
  if (policy != "None" && !on_node && !site.name_servers.empty()) {
    out.servers = site.name_servers;
    out.searches = {format("{}.svc.{}", ns, kClusterDomain), format("svc.{}", kClusterDomain), kClusterDomain};
    out.options = {"ndots:5"};
  }
  const json::value& more = part(spec, "dnsConfig");
  const auto add = [](std::vector<std::string>& to, std::string one) {
    if (std::ranges::find(to, one) == to.end())
      to.push_back(std::move(one));
  };
  for (std::string& one : texts_in(more, "nameservers")) add(out.servers, std::move(one));
  for (std::string& one : texts_in(more, "searches")) add(out.searches, std::move(one));
  for (const json::value& one : list_in(more, "options")) {
    const std::string name = text_in(one, "name"), value = text_in(one, "value");
    std::erase_if(out.options, [&](const std::string& other) { return other.substr(0, other.find(':')) == name; });
    out.options.push_back(value.empty() ? name : name + ":" + value);
  }
  return out;
}

std::vector<PublishedPort> published_of(const json::object& pod) {
  std::vector<PublishedPort> out;
  for (const char* list : {"initContainers", "containers"})
    for (const json::value& container : containers_in(pod, list))
      for (const json::value& one : list_in(container, "ports")) {
        const std::int64_t node_port = integer_in(one, "hostPort").value_or(0);
        const std::int64_t port = integer_in(one, "containerPort").value_or(0);
        if (node_port > 0 && node_port <= UINT16_MAX && port > 0 && port <= UINT16_MAX)
          out.push_back({static_cast<std::uint16_t>(node_port), static_cast<std::uint16_t>(port),
                         lower(text_in(one, "protocol").empty() ? "tcp" : text_in(one, "protocol")),
                         text_in(one, "hostIP")});
      }
  return out;
}

Sandbox sandbox_of(const json::object& pod, const PodSite& site) {
  const json::value &spec = spec_of(pod), &security = part(spec, "securityContext");
  const std::string name = text_in(part(pod, "metadata"), "name"), ns = text_in(part(pod, "metadata"), "namespace");
  Sandbox out;
  const bool on_node = flag_in(spec, "hostNetwork");
  out.network = on_node ? TaskNetwork::kHost : TaskNetwork::kOwn;
  out.containers = containers_of_pod(pod);
  for (const json::value& one : list_in(spec, "volumes")) out.volumes.push_back(volume_of(one, site));
  out.front_end_files = true;
  if (!on_node) {
    const std::string host = text_in(spec, "hostname"), sub = text_in(spec, "subdomain");
    out.host_name = (host.empty() ? name : host).substr(0, kHostNameMax);
    while (out.host_name.ends_with('-') || out.host_name.ends_with('.')) out.host_name.pop_back();
    if (!sub.empty())
      out.domain = format("{}.{}.svc.{}", sub, ns, kClusterDomain);
    out.published = published_of(pod);
  }
  out.aliases = aliases_of(spec);
  out.lookup = lookup_of(pod, site);
  for (const json::value& one : list_in(security, "sysctls"))
    out.sysctls.emplace_back(text_in(one, "name"), text_in(one, "value"));
  if (const auto group = integer_in(security, "fsGroup"); group && *group >= 0 && *group <= UINT32_MAX)
    out.files_group = static_cast<std::uint32_t>(*group);
  out.shared_processes = flag_in(spec, "shareProcessNamespace");
  out.node_processes = flag_in(spec, "hostPID");
  out.node_ipc = flag_in(spec, "hostIPC");
  return out;
}

}  // namespace

Result<JobSpec> job_of_pod(const json::object& pod, const PodSite& site) {
  const json::value& spec = spec_of(pod);
  JobSpec out;
  out.name = text_in(part(pod, "metadata"), "name");
  out.front_end = "kubernetes";
  out.user = site.user;
  out.account = site.account;
  out.qos = site.qos;
  out.nice = site.nice;
  out.requeue = mutant(Mutant::kPodOnTwoNodes);  // a pod runs once: whoever made it makes another
  out.requeue_set = true;
  out.kill_wait = seconds(std::clamp<std::int64_t>(integer_in(spec, "terminationGracePeriodSeconds").value_or(30), 0,
                                                   std::int64_t{365} * 86'400));
  const auto deadline = integer_in(spec, "activeDeadlineSeconds");
  out.time_limit = deadline && *deadline > 0 ? seconds(std::min<std::int64_t>(*deadline, INT32_MAX)) : kForever;
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.tasks = {1, 1};
  group.nodes = {1, 1};
  group.restart = RestartRule::kNever;
  TRY(set_amounts(group, pod));
  group.sandbox = sandbox_of(pod, site);
  if (site.nodes)
    group.only_nodes = *site.nodes;
  out.groups = std::vector<GroupSpec>{std::move(group)};
  if (const json::array& containers = containers_in(pod, "containers"); !containers.empty())
    out.command = text_in(containers.front(), "image");
  return out;
}

}  // namespace lockstep::kube
