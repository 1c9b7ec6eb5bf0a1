#include "frontends/kube/kinds/pod_job.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/kinds/node_pressure.h"
#include "frontends/kube/kinds/pod_containers.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/machinery/json_tree.h"
#include "model/bounds.h"
#include "wire/front_end_files.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kGpu = "nvidia.com/gpu", kMig = "nvidia.com/mig-", kHugePages = "hugepages-";
constexpr std::size_t kHostNameMax = 63;
constexpr std::int64_t kMegabyte = 1 << 20, kCountMax = 1'000'000;

// --- amounts ---

std::int64_t megabytes(const Quantity& bytes) {
  return std::clamp<std::int64_t>((bytes.whole() + kMegabyte - 1) / kMegabyte, 0, kMegabytesMax);
}

// Whole cores of its own for whom Kubernetes' static policy gives them: a guaranteed pod that asks for whole ones. All
// others share the cores that nobody has for himself, by thousandths.
void set_cores(Resources& needs, const json::object& pod, std::int64_t milli) {
  milli = std::clamp<std::int64_t>(milli, 0, kCountMax * 1000);
  if (milli % 1000 == 0 && qos_class(pod) == "Guaranteed")
    needs.cores = static_cast<std::uint32_t>(milli / 1000);
  else
    needs.shared_milli = static_cast<std::uint32_t>(milli);
}

// Logs, layers and volumes on disk together, where every container has a limit.
std::uint64_t disk_bytes_of(const json::object& pod) {
  for (const json::value& one : containers_in(pod, "containers"))
    if (!quantity_in(part(part(one, "resources"), "limits"), "ephemeral-storage"))
      return 0;
  const Amounts limits = pod_sums(pod, "limits");
  const auto disk = limits.find("ephemeral-storage");
  return disk == limits.end() || disk->second.sign() <= 0 ? 0 : static_cast<std::uint64_t>(disk->second.whole());
}

Result<void> set_amounts(GroupSpec& group, const json::object& pod) {
  Resources& needs = group.per_task;
  for (const auto& [name, amount] : pod_sums(pod, "requests")) {
    if (name == "cpu") {
      set_cores(needs, pod, amount.thousandths());
    } else if (name == "memory") {
      needs.memory_mb = megabytes(amount);
    } else if (amount.sign() > 0 && (name == kEphemeralStorage || name.starts_with(kHugePages))) {
      needs.counted.push_back({name, megabytes(amount)});
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
  return {};
}

// --- volumes ---

constexpr std::string_view kHugeMedium = "HugePages";

// "-2Mi" as mount(8) has it: "2M".
std::string page_size_of(std::string_view text) {
  std::string out(text.starts_with('-') ? text.substr(1) : text);
  if (out.ends_with('i'))
    out.pop_back();
  return out;
}

SandboxVolume volume_of(const json::value& volume, const PodSite& site) {
  using enum SandboxVolume::Kind;
  SandboxVolume out;
  out.name = text_in(volume, "name");
  const auto claim = site.claims.find(out.name);
  if (const json::value& own = part(volume, "emptyDir"); own.is_object()) {
    const std::string medium = text_in(own, "medium");
    out.kind = medium == "Memory" || medium.starts_with(kHugeMedium) ? kMemory : kDisk;
    if (medium.starts_with(kHugeMedium))
      out.path = medium == kHugeMedium ? "2M" : page_size_of(medium.substr(kHugeMedium.size()));
    if (const auto bound = quantity_in(own, "sizeLimit"); bound && bound->sign() > 0)
      out.bytes_max = static_cast<std::uint64_t>(bound->whole());
  } else if (const json::value& host = part(volume, "hostPath"); host.is_object()) {
    out.kind = kHost;
    out.path = text_in(host, "path");
    out.path_type = text_in(host, "type");
  } else if (const json::value& nfs = part(volume, "nfs"); nfs.is_object()) {
    out.kind = kNfs;
    out.path = format("{}:{}", text_in(nfs, "server"), text_in(nfs, "path"));
  } else if (const json::value& image = part(volume, "image"); image.is_object()) {
    out.kind = kImage;
    out.path = "docker://" + text_in(image, "reference");
    out.path_type = text_in(image, "pullPolicy");
  } else if (claim != site.claims.end() && claim->second.find(":/") != std::string::npos) {
    out.kind = kNfs;
    out.path = claim->second;
  } else if (claim != site.claims.end()) {
    out.kind = kHost;
    out.path = claim->second;
    out.path_type = kLastingVolume;
    if (const auto bound = site.claim_bytes.find(out.name); bound != site.claim_bytes.end())
      out.bytes_max = bound->second;
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
  const std::string ns = text_in(part(pod, "metadata"), "namespace");
  Sandbox out;
  const bool on_node = flag_in(spec, "hostNetwork");
  out.network = on_node ? TaskNetwork::kHost : TaskNetwork::kOwn;
  out.containers = containers_of_pod(pod);
  for (const json::value& one : list_in(spec, "volumes")) out.volumes.push_back(volume_of(one, site));
  out.front_end_files = true;
  if (!on_node) {
    const std::string host = text_in(spec, "hostname"), sub = text_in(spec, "subdomain");
    // Pods of one template ask for the same, so that all of their jobs share it.
    out.named_as_job = host.empty();
    out.host_name = host.substr(0, kHostNameMax);
    while (out.host_name.ends_with('-') || out.host_name.ends_with('.')) out.host_name.pop_back();
    if (!sub.empty())
      out.domain = format("{}.{}.svc.{}", sub, ns, kClusterDomain);
    out.published = published_of(pod);
  }
  out.aliases = aliases_of(spec);
  out.lookup = lookup_of(pod, site);
  for (const json::value& one : list_in(security, "sysctls"))
    out.sysctls.emplace_back(sysctl_with_dots(text_in(one, "name")), text_in(one, "value"));
  if (const auto group = integer_in(security, "fsGroup"); group && *group >= 0 && *group <= UINT32_MAX)
    out.files_group = static_cast<std::uint32_t>(*group);
  out.files_group_where_other = text_in(security, "fsGroupChangePolicy") == "OnRootMismatch";
  out.disk_bytes = disk_bytes_of(pod);
  out.shared_processes = flag_in(spec, "shareProcessNamespace");
  out.node_processes = flag_in(spec, "hostPID");
  out.node_ipc = flag_in(spec, "hostIPC");
  return out;
}

}  // namespace

PodSize size_of_pod(const json::object& pod) {
  Resources needs;
  const Amounts requests = pod_sums(pod, "requests");
  if (const auto cpu = requests.find("cpu"); cpu != requests.end())
    set_cores(needs, pod, cpu->second.thousandths());
  if (const auto memory = requests.find("memory"); memory != requests.end())
    needs.memory_mb = megabytes(memory->second);
  return size_of(needs);
}

PodSize size_of(const Resources& granted) {
  return {granted.cores, granted.shared_milli, std::max<std::int64_t>(0, granted.memory_mb)};
}

Result<JobSpec> job_of_pod(const json::object& pod, const PodSite& site) {
  const json::value& spec = spec_of(pod);
  JobSpec out;
  out.name = text_in(part(pod, "metadata"), "name");
  out.front_end = "kubernetes";
  out.user = site.user;
  out.account = site.account;
  out.qos = site.qos;
  out.nice = site.nice;
  out.labels = labels_of_pod(pod);
  out.scope = text_in(part(pod, "metadata"), "namespace");
  out.precedence = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(integer_in(spec, "priority").value_or(0), INT32_MIN, INT32_MAX));
  out.waits_its_turn = text_in(spec, "preemptionPolicy") == "Never";
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
  if (const std::string node = text_in(spec, "nodeName"); !node.empty())
    group.only_nodes = {node};
  TRY(set_terms(group, pod, site.namespaces));
  for (const json::value& selector : site.volume_nodes) TRY(keep_near(group, selector));
  std::vector<GroupSpec> groups;
  groups.push_back(std::move(group));
  out.groups = std::move(groups);
  return out;
}

}  // namespace lockstep::kube
