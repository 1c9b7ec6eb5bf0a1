// scontrol show node, partition and config.
#include <algorithm>

#include "base/hostlist.h"
#include "frontends/slurm/server/job_facts.h"
#include "frontends/slurm/server/job_filter.h"
#include "frontends/slurm/server/node_facts.h"
#include "frontends/slurm/server/show.h"
#include "frontends/slurm/server/show_text.h"
#include "frontends/slurm/server/states.h"
#include "wire/topology_file.h"

namespace lockstep::slurm {

namespace {

// What becomes of a job that is preempted there, as far as its QOS says nothing.
std::string preempt_mode_text(const Partition& partition, const Policy& policy) {
  PreemptMode mode = partition.preempt_mode;
  if (mode == PreemptMode::kCluster)
    mode = policy.preempt_mode;
  switch (mode) {
    case PreemptMode::kCancel: return "CANCEL";
    case PreemptMode::kRequeue: return "REQUEUE";
    case PreemptMode::kSuspend: return "SUSPEND";
    case PreemptMode::kCheckpoint: return "CHECKPOINT";
    case PreemptMode::kGang:
    case PreemptMode::kCluster:
    case PreemptMode::kOff: break;
  }
  return "OFF";
}

PageReply plain(std::string text) { return {200, "text/plain; charset=utf-8", std::move(text), {}}; }

void node_record(ShowText& out, const ReadContext& context, const Node& node, const NodeHolding& holding,
                 const std::string& partitions, bool detail) {
  const CpuCounts cpus = cpu_counts(node, holding);
  const std::string features = join(node.features, ",");
  out.pair("NodeName", node.meta.name).pair("Arch", "x86_64");
  out.pair("CoresPerSocket", node.cores / std::max(1u, node.sockets));
  out.next_line();
  out.pair("CPUAlloc", cpus.allocated)
      .pair("CPUEfctv", node.cores)
      .pair("CPUTot", node.cores)
      .pair("CPULoad", load_text(context, node));
  out.next_line();
  out.text_or_null("AvailableFeatures", features);
  out.next_line();
  out.text_or_null("ActiveFeatures", features);
  out.next_line();
  out.pair("Gres", gres_text(node));
  if (detail) {
    out.next_line();
    out.pair("GresUsed", gres_used_text(node, holding));
  }
  out.next_line();
  out.pair("NodeAddr", node.address).pair("NodeHostName", node.hostname.empty() ? node.meta.name : node.hostname);
  out.pair("Version", node.version);
  out.next_line();
  out.pair("RealMemory", node.memory_mb)
      .pair("AllocMem", holding.memory_mb)
      .pair("FreeMem", free_memory_text(context, node));
  out.pair("Sockets", node.sockets).pair("Boards", 1);
  out.next_line();
  out.pair("State", slurm_node_state_flags(node, holding)).pair("ThreadsPerCore", node.threads_per_core);
  out.pair("TmpDisk", node.tmp_disk_mb).pair("Weight", node.weight).pair("Owner", "N/A").pair("MCS_label", "N/A");
  out.next_line();
  out.pair("Partitions", partitions);
  out.next_line();
  out.time("BootTime", wall_seconds(context, node.boot_at));
  out.time("SlurmdStartTime", wall_seconds(context, node.seen_at));
  out.next_line();
  out.pair("LastBusyTime", "Unknown").pair("ResumeAfterTime", "None");
  out.next_line();
  out.pair("CfgTRES", node_tres(node));
  out.next_line();
  out.pair("AllocTRES", alloc_tres(node, holding));
  if (const NodeReason reason = reason_of(node); !reason.words.empty()) {
    out.next_line();
    out.pair("Reason", format("{} [{}@", reason.words, reason.by ? user_name(context, reason.by) : "root"));
    out.add_time(wall_seconds(context, reason.at), "Unknown", "]");
  }
  out.end_record();
}

// "cpu=1,mem=0.25G,gres/gpu=2.5"
std::string weights_text(const std::vector<TresWeight>& weights) {
  std::string out;
  for (const TresWeight& weight : weights)
    out += format("{}{}={:g}{}", out.empty() ? "" : ",", weight.name, static_cast<double>(weight.milli) / 1000,
                  weight.name == "mem" ? "G" : "");
  return out;
}

void partition_record(ShowText& out, const ReadContext& context, const Partition& partition) {
  std::vector<std::string> names;
  std::uint64_t cpus = 0;
  std::int64_t memory_mb = 0;
  std::uint32_t gpus = 0;
  for (const Ref<Node>& node : partition_nodes(context.tables, partition)) {
    for (const Device& device : node->devices) gpus += device.kind == "gpu";
    names.push_back(node->meta.name);
    cpus += node->cores;
    memory_mb += node->memory_mb;
  }
  const std::size_t count = names.size();
  sort_hosts(names);
  const auto limit = [](Duration d) { return d >= kForever ? std::string("UNLIMITED") : show_span(d.seconds()); };
  const std::string accounts = join(partition.allow_accounts, ",");
  out.pair("PartitionName", partition.meta.name);
  out.next_line();
  const std::string qos = join(partition.allow_qos, ",");
  out.pair("AllowGroups", "ALL").pair("AllowAccounts", accounts.empty() ? "ALL" : accounts);
  out.pair("AllowQos", qos.empty() ? "ALL" : qos);
  out.next_line();
  out.pair("AllocNodes", "ALL")
      .pair("Default", partition.is_default ? "YES" : "NO")
      .pair("QoS", partition.qos.empty() ? "N/A" : partition.qos);
  out.next_line();
  out.pair("DefaultTime", partition.time_default.us ? limit(partition.time_default) : "NONE");
  out.pair("DisableRootJobs", "NO")
      .pair("ExclusiveUser", "NO")
      .pair("GraceTime", partition.grace.seconds())
      .pair("Hidden", "NO");
  out.next_line();
  out.pair("MaxNodes", partition.nodes_max ? std::to_string(partition.nodes_max) : "UNLIMITED");
  out.pair("MaxTime", limit(partition.time_max)).pair("MinNodes", 0).pair("LLN", "NO");
  out.pair("MaxCPUsPerNode", "UNLIMITED");
  out.next_line();
  out.text_or_null("Nodes", compress_hostlist(names));
  out.next_line();
  out.pair("PriorityJobFactor", partition.priority).pair("PriorityTier", partition.tier).pair("RootOnly", "NO");
  out.pair("ReqResv", "NO").pair("OverSubscribe", "NO");
  out.next_line();
  out.pair("OverTimeLimit", "NONE").pair("PreemptMode", preempt_mode_text(partition, context.tables.policy()));
  out.next_line();
  out.pair("State", partition_state(partition)).pair("TotalCPUs", cpus).pair("TotalNodes", count);
  out.pair("SelectTypeParameters", "NONE");
  out.next_line();
  out.pair("JobDefaults", "(null)");
  out.next_line();
  if (partition.memory_per_core_mb > 0)
    out.pair("DefMemPerCPU", partition.memory_per_core_mb).pair("MaxMemPerNode", "UNLIMITED");
  else
    out.pair("DefMemPerNode", "UNLIMITED").pair("MaxMemPerNode", "UNLIMITED");
  out.next_line();
  JobCounts all;
  all.nodes = static_cast<std::uint32_t>(count), all.cpus = static_cast<std::uint32_t>(cpus);
  all.memory_mb = memory_mb, all.gpus = gpus;
  out.pair("TRES", tres_text(all, &partition));
  if (!partition.billing.empty()) {
    out.next_line();
    out.pair("TRESBillingWeights", weights_text(partition.billing));
  }
  out.end_record();
}

}  // namespace

PageReply show_node_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  std::vector<Ref<Node>> nodes;
  if (!name.empty()) {
    const auto names = expand_hostlist(name, kHostsAskedMax);
    if (!names)
      return refusal(400, names.error().message);
    for (const std::string& one : *names) {
      const Node* node = context.tables.node(one);
      if (!node)
        return refusal(404, format("Node {} not found", one));
      nodes.push_back(context.tables.nodes.at(node->id));
    }
  } else {
    nodes = refs_of<Node>(context.tables.nodes);
    std::sort(nodes.begin(), nodes.end(),
              [](const auto& a, const auto& b) { return host_less(a->meta.name, b->meta.name); });
  }
  if (nodes.empty())
    return plain("No nodes in the system\n");
  struct Facts {
    std::map<NodeId, NodeHolding> holdings;
    PartitionsByNode partitions;
  };
  const auto facts = std::make_shared<const Facts>(Facts{node_holdings(context), PartitionsByNode(context.tables)});
  return show_in_pieces<Node>(std::move(nodes), show_look(request), 64,
                              [&context, facts, detail = flag_of(request, "detail")](ShowText& out, const Node& node) {
                                const auto held = facts->holdings.find(node.id);
                                node_record(out, context, node,
                                            held == facts->holdings.end() ? NodeHolding{} : held->second,
                                            facts->partitions.text(node), detail);
                              });
}

PageReply show_partition_page(const ReadContext& context, const PageRequest& request) {
  const std::string& name = query_of(request, "name");
  std::vector<Ref<Partition>> partitions;
  if (name.empty()) {
    partitions = refs_of<Partition>(context.tables.partitions);
  } else if (const auto found = context.tables.partitions.find(name); found != context.tables.partitions.end()) {
    partitions.push_back(found->second);
  } else {
    return refusal(404, format("Partition {} not found", name));
  }
  if (partitions.empty())
    return plain("No partitions in the system\n");
  return show_in_pieces<Partition>(
      std::move(partitions), show_look(request), 1,
      [&context](ShowText& out, const Partition& partition) { partition_record(out, context, partition); });
}

// Only the switches named or above the node named, if one is.
PageReply show_topology_page(const ReadContext& context, const PageRequest& request) {
  const Topology* topology = context.tables.topology.get();
  if (!topology)
    return plain("No topology information available\n");
  const std::string& name = query_of(request, "name");
  std::string out;
  std::size_t index = 0;
  for (const SwitchView& view : switches_of(*topology)) {
    const std::size_t number = index++;
    const bool wanted =
        name.empty() || view.name == name || std::find(view.nodes.begin(), view.nodes.end(), name) != view.nodes.end();
    if (!wanted)
      continue;
    const std::string nodes = compress_hostlist(view.nodes);
    if (topology->blocks)
      out += format("BlockName={} BlockIndex={} Nodes={} BlockSize={}\n", shown(view.name), number, shown(nodes),
                    view.nodes.size());
    else
      out += format("SwitchName={} Level={} LinkSpeed=1 Nodes={}{}\n", shown(view.name), view.height, shown(nodes),
                    view.switches.empty() ? "" : " Switches=" + shown(compress_hostlist(view.switches)));
  }
  if (out.empty())
    return refusal(404, format("Topology information contains no switch or node named {}", name));
  return plain(std::move(out));
}

PageReply show_config_page(const ReadContext& context, const PageRequest& request) {
  const Topology* topology = context.tables.topology.get();
  const std::pair<const char*, std::string> settings[] = {
      {"AccountingStorageType", "accounting_storage/lockstep"},
      {"AuthType", "auth/lockstep"},
      {"ClusterName", context.cluster_name},
      {"CompleteWait", "0 sec"},
      {"DefMemPerNode", "UNLIMITED"},
      {"EnforcePartLimits", "NO"},
      {"GresTypes", "gpu"},
      {"InactiveLimit", "60 sec"},  // of srun and salloc: client_grace in controller/server.h
      {"JobAcctGatherType", "jobacct_gather/none"},
      {"JobRequeue", "1"},
      {"KillOnBadExit", "0"},
      {"KillWait", "30 sec"},
      {"LaunchParameters", "(null)"},
      {"MaxArraySize", "4294967295"},
      {"MaxJobCount", "4294967295"},
      {"MaxMemPerNode", "UNLIMITED"},
      {"MinJobAge", "300 sec"},
      {"MpiDefault", "none"},
      {"OverTimeLimit", "0 min"},
      {"PreemptMode", preempt_mode_text(Partition{}, context.tables.policy())},
      {"PreemptType", context.tables.policy().preempt_by_tier ? "preempt/partition_prio" : "preempt/qos"},
      {"PriorityType", "priority/multifactor"},
      // What that tells programs is so: whatever a step leaves behind ends with it.
      {"ProctrackType", "proctrack/cgroup"},
      {"ReturnToService", "2"},
      {"SchedulerType", "sched/backfill"},
      {"SelectType", "select/cons_tres"},
      {"SelectTypeParameters", "CR_CORE_MEMORY"},
      {"SLURM_VERSION", "24.11.5"},
      {"SwitchType", "(null)"},
      {"TaskPlugin", "task/none"},
      {"TmpFS", "/tmp"},
      {"TopologyPlugin", !topology          ? "topology/flat"
                         : topology->blocks ? "topology/block"
                                            : "topology/tree"},
      {"TreeWidth", "32"},
      {"WaitTime", "0 sec"},
  };
  ShowText as_of(show_look(request));
  std::string out = format("Configuration data as of {}\n", as_of.add_time(wall_seconds(context, context.now)).take());
  for (const auto& [key, value] : settings) out += format("{:<23} = {}\n", key, shown(value));
  return plain(std::move(out));
}

}  // namespace lockstep::slurm
