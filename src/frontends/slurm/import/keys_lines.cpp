// The keys of lines that have several: nodes, partitions, sets of nodes, GPUs and switches.
#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/partition_words.h"
#include "frontends/slurm/client/values.h"
#include "frontends/slurm/import/conf_keys.h"
#include "frontends/slurm/import/gres_words.h"
#include "frontends/slurm/import/preempt_words.h"
#include "model/bounds.h"
#include "model/tres_names.h"

namespace lockstep::slurm {

namespace {

constexpr Verdict taken = Verdict::kTaken, same = Verdict::kSame, no_equal = Verdict::kNoEqual;
constexpr std::string_view kNoPower = "nodes are not switched off and on";

// --- nodes ---

template <std::uint32_t NodeDraft::*kCount>
Result<Fate> take_count(Site& site, const ConfWord& word) {
  const auto count = parse_count(word.value);
  if (!count || *count > kAmountMax)
    return invalid(format("a number up to {} is meant", kAmountMax));
  site.node.*kCount = *count;
  return Fate{};
}

Result<Fate> take_node_memory(Site& site, const ConfWord& word) {
  const auto memory = parse_memory_mb(word.value);
  if (!memory)
    return invalid("a number of megabytes is meant");
  site.node.memory_mb = *memory;
  return Fate{};
}

Result<Fate> take_features(Site& site, const ConfWord& word) {
  site.node.features.clear();
  for (const std::string& feature : split(word.value, ','))
    if (!feature.empty() &&
        std::find(site.node.features.begin(), site.node.features.end(), feature) == site.node.features.end())
      site.node.features.push_back(feature);
  return Fate{};
}

Result<Fate> take_node_gres(Site& site, const ConfWord& word) {
  const GresWords gres = TRY(gres_words(word.value));
  site.node.gpus = gres.gpus;
  site.node.gpu_type = gres.types.size() == 1 ? gres.types.front() : "";
  site.node.gpu_types_differ = gres.types.size() > 1;
  if (!gres.others.empty())
    return Fate{Verdict::kNoEqual, format("{} has no equal: agents find GPUs by themselves, and no other kind exists{}",
                                          join(gres.others, ", "), gres.gpus > 0 ? "; the GPUs are taken" : "")};
  if (gres.types.size() > 1)
    return Fate{Verdict::kTaken,
                format("{} GPUs of any type: a class has one, jobs may still ask for each", gres.gpus)};
  return Fate{};
}

Result<Fate> take_node_state(Site&, const ConfWord& word) {
  const std::string state = lower(word.value);
  if (is_among("unknown idle", state))
    return Fate{Verdict::kTaken, "a node is what its agent says"};
  if (state == "future")
    return Fate{Verdict::kTaken, "a class may name nodes that have not joined yet"};
  if (is_among("cloud power_down power_up", state))
    return Fate{Verdict::kNoEqual, "nodes are not switched on: one that is started joins by itself"};
  if (is_among("down drain drained fail failing", state))
    return Fate{Verdict::kNoEqual,
                "the node will be used when it has joined: drain it then, `lockstep node drain NAME`"};
  return invalid("no state that a file may give: UNKNOWN, FUTURE, CLOUD, DOWN, DRAIN, FAIL");
}

// The names are the line's own business (importer.cpp).
Result<Fate> take_names(Site&, const ConfWord&) { return Fate{}; }

// clang-format off
constexpr ConfKey kNodes[] = {
  {"NodeName", taken, "", "the nodes of a class", take_names},
  {"BcastAddr", same, "", "a node's address is what its agent says"},
  {"Boards", taken, "", "part of the cores that a node ought to have", take_count<&NodeDraft::boards>},
  {"CoreSpecCount", no_equal, "0", "no cores are kept for the system: jobs may have all of them"},
  {"CoresPerSocket", taken, "", "part of the cores that a node ought to have", take_count<&NodeDraft::cores_per_socket>},
  {"CpuBind", no_equal, "none", "tasks are not bound to cores"},
  {"CPUs", taken, "", "the cores that a node ought to have", take_count<&NodeDraft::cpus>},
  {"CpuSpecList", no_equal, "", "no cores are kept for the system: jobs may have all of them"},
  {"Feature", taken, "", "features of the class", take_features},
  {"Features", taken, "", "features of the class", take_features},
  {"Gres", taken, "", "the GPUs that a node ought to have", take_node_gres},
  {"MemSpecLimit", no_equal, "0", "no memory is kept for the system: jobs may ask for all of it"},
  {"NodeAddr", same, "", "a node's address is what its agent says"},
  {"NodeHostname", no_equal, "", "the node joins by the name it has here: `lockstep node token --node NAME`"},
  {"Parameters", no_equal, "", "an agent has no such settings"},
  {"Port", same, "", "agents dial out: a node needs no open port"},
  {"Procs", taken, "", "the cores that a node ought to have", take_count<&NodeDraft::cpus>},
  {"RealMemory", taken, "", "the memory that a node ought to have", take_node_memory},
  {"Reason", no_equal, "", "a node's reason is given with its state, when it has joined"},
  {"RestrictedCoresPerGPU", no_equal, "0", "no cores are kept for jobs with GPUs: the price of packing keeps small jobs off GPU nodes"},
  {"Sockets", taken, "", "part of the cores that a node ought to have", take_count<&NodeDraft::sockets>},
  {"SocketsPerBoard", taken, "", "part of the cores that a node ought to have", take_count<&NodeDraft::sockets_per_board>},
  {"State", taken, "", "", take_node_state},
  {"ThreadsPerCore", taken, "", "CPUs are threads: so many of them are a core", take_count<&NodeDraft::threads_per_core>},
  {"TmpDisk", same, "", "an agent tells the size of /tmp; --tmp looks at it"},
  {"Topology", no_equal, "", "there is one topology: topology.conf says where nodes are"},
  {"TRESWeights", no_equal, "", "Slurm does not use it either"},
  {"Weight", taken, "", "the class's weight: lighter nodes are taken first", take_count<&NodeDraft::weight>},
};

constexpr ConfKey kDown[] = {
  {"DownNodes", no_equal, "", "the nodes will be used when they have joined: drain them then, `lockstep node drain NAMES`"},
  {"Reason", no_equal, "", "a node's reason is given with its state, when it has joined"},
  {"State", no_equal, "", "the nodes will be used when they have joined: drain them then, `lockstep node drain NAMES`"},
};

constexpr std::string_view kNoFrontend = "there are no front ends: every node has an agent of its own";
constexpr ConfKey kFrontends[] = {
  {"FrontendName", no_equal, "", kNoFrontend}, {"AllowGroups", no_equal, "", kNoFrontend},
  {"AllowUsers", no_equal, "", kNoFrontend},   {"DenyGroups", no_equal, "", kNoFrontend},
  {"DenyUsers", no_equal, "", kNoFrontend},    {"FrontendAddr", no_equal, "", kNoFrontend},
  {"Port", no_equal, "", kNoFrontend},         {"Reason", no_equal, "", kNoFrontend},
  {"State", no_equal, "", kNoFrontend},
};
// clang-format on

// --- sets of nodes ---

Result<Fate> take_set_nodes(Site& site, const ConfWord& word) {
  site.node_set.nodes += (site.node_set.nodes.empty() ? "" : ",") + word.value;
  return Fate{};
}

Result<Fate> take_set_features(Site& site, const ConfWord& word) {
  site.node_set.features = split(word.value, ',');
  return Fate{};
}

Result<Fate> take_set_name(Site& site, const ConfWord& word) {
  site.node_set.name = word.value;
  return Fate{};
}

constexpr ConfKey kNodeSets[] = {
    {"NodeSet", taken, "", "its nodes stand in each partition that names it", take_set_name},
    {"Feature", taken, "", "the nodes that have one of the features now", take_set_features},
    {"Nodes", taken, "", "these nodes", take_set_nodes},
};

// --- partitions ---

// What scontrol sets by the same name.
Result<Fate> take_partition(Site& site, const ConfWord& word) {
  TRY(set_partition(site.partition.record, {lower(word.key), word.value}));
  return Fate{};
}

Fate no_jobs_fate() {
  return {Verdict::kNoEqual, "0 lets no job run in Slurm, and is not taken over: close the partition by State=DOWN"};
}

Result<Fate> take_nodes_max(Site& site, const ConfWord& word) {
  return word.value == "0" ? Result<Fate>(no_jobs_fate()) : take_partition(site, word);
}

// Of what is billed here; Slurm knows more that may be counted, and mostly gives it 0.
Result<Fate> take_weights(Site& site, const ConfWord& word) {
  std::vector<std::string> known, left;
  for (const std::string& part : split(word.value, ',')) {
    Tres nothing;
    const std::string name = lower(part.substr(0, part.find('=')));
    (set_count(nothing, name, 1) ? known : left).push_back(part);
  }
  TRY(set_partition(site.partition.record, {lower(word.key), join(known, ",")}));
  if (left.empty())
    return Fate{};
  return Fate{Verdict::kNoEqual, format("{} is not counted here; the rest is taken", join(left, ", "))};
}

// Slurm counts in minutes, and rounds seconds up.
Result<Fate> take_time(Site& site, const ConfWord& word) {
  if (word.value == "0")
    return no_jobs_fate();
  Partition& partition = site.partition.record;
  TRY(set_partition(partition, {lower(word.key), word.value}));
  for (Duration* time : {&partition.time_max, &partition.time_default})
    if (*time < kForever)
      *time = minutes((time->us + minutes(1).us - 1) / minutes(1).us);
  return Fate{};
}

Result<Fate> take_members(Site& site, const ConfWord& word) {
  site.partition.nodes = word.value;
  return Fate{};
}

Result<Fate> take_partition_state(Site& site, const ConfWord& word) {
  const std::string state = lower(word.value);
  if (!is_among("up down drain inactive", state))
    return invalid("UP, DOWN, DRAIN or INACTIVE is meant");
  site.partition.record.up = is_among("up drain", state);
  site.partition.record.closed = is_among("drain inactive", state);
  return Fate{};
}

// Before PriorityTier and PriorityJobFactor there was Priority, which was both.
Result<Fate> take_partition_priority(Site& site, const ConfWord& word) {
  const auto priority = parse_count(word.value);
  if (!priority)
    return invalid("a number is meant");
  site.partition.record.tier = site.partition.record.priority = *priority;
  return Fate{};
}

Result<Fate> take_partition_preempt_mode(Site& site, const ConfWord& word) {
  const PreemptWords words = TRY(preempt_words(word.value));
  site.partition.record.preempt_mode = words.mode;
  return preempt_fate(words);
}

// Seconds, or a time as a limit has it; "00:00:00" is none.
Result<Fate> take_grace(Site& site, const ConfWord& word) {
  if (is_among("unlimited infinite", lower(word.value)))
    return Fate{Verdict::kNoEqual, "a preempted job is stopped at some time: none is taken for no warning"};
  const auto count = parse_count(word.value);
  auto span = count ? std::optional(seconds(*count)) : parse_time_limit(word.value);
  if (span && word.value.find_first_not_of("0:-") == std::string::npos)
    span = Duration{};
  if (!span || *span >= kForever)
    return invalid("a number of seconds is meant");
  site.partition.record.grace = *span;
  return Fate{};
}

// clang-format off
constexpr ConfKey kPartitions[] = {
  {"PartitionName", taken, "", "a partition", take_names},
  {"AllocNodes", no_equal, "all", "jobs may be submitted from every node: AllowAccounts and AllowQos bound who may"},
  {"AllowAccounts", taken, "", "accounts that may use it", take_partition},
  {"AllowGroups", no_equal, "all", "groups do not bound who may use a partition: everybody may. Make an account of the group and say AllowAccounts"},
  {"AllowQos", taken, "", "QOS that may use it", take_partition},
  {"Alternate", no_equal, "none", "a job waits where its partition is down: users name several partitions"},
  {"CpuBind", no_equal, "none", "tasks are not bound to cores"},
  {"Default", taken, "", "where jobs go that name no partition", take_partition},
  {"DefaultTime", taken, "", "the time of jobs that name none", take_time},
  {"DefCpuPerGPU", no_equal, "0", "no cores come with a GPU by themselves: jobs ask with --cpus-per-gpu"},
  {"DefMemPerCPU", taken, "", "memory for each core where a job names none", take_partition},
  {"DefMemPerGPU", no_equal, "0", "no memory comes with a GPU by itself: jobs ask with --mem-per-gpu"},
  {"DefMemPerNode", no_equal, "0 unlimited", "a job that names no memory is charged by DefMemPerCPU: say it so, or users ask with --mem"},
  {"DenyAccounts", taken, "", "accounts that may not use it", take_partition},
  {"DenyQos", taken, "", "QOS that may not use it", take_partition},
  {"DisableRootJobs", no_equal, "no 0 false", "root may submit jobs"},
  {"ExclusiveTopo", no_equal, "no 0 false", "blocks are shared by jobs: users say --segment to have whole ones"},
  {"ExclusiveUser", no_equal, "no 0 false", "jobs of several users share nodes: users say --exclusive=user"},
  {"GraceTime", taken, "", "the time between warning and stop of a preempted job", take_grace},
  {"Hidden", no_equal, "no 0 false", "every partition is listed"},
  {"JobDefaults", no_equal, "", "nothing comes with a GPU by itself: jobs ask with --cpus-per-gpu and --mem-per-gpu"},
  {"LLN", no_equal, "no 0 false", "jobs go where the price of packing is lowest, not to the emptiest node"},
  {"MaxCPUsPerNode", no_equal, "unlimited infinite", "cores on a node are not bounded by partition: set MaxTRESPerNode=cpu= on its QOS"},
  {"MaxCPUsPerSocket", no_equal, "unlimited infinite", "cores on a socket are not bounded"},
  {"MaxMemPerCPU", no_equal, "0 unlimited", "memory for each core is not bounded: set MaxTRESPerNode=mem= on its QOS"},
  {"MaxMemPerNode", no_equal, "0 unlimited", "memory on a node is not bounded by partition: set MaxTRESPerNode=mem= on its QOS"},
  {"MaxNodes", taken, "", "the nodes that a job may have", take_nodes_max},
  {"MaxTime", taken, "", "the time that a job may have", take_time},
  {"MinNodes", no_equal, "0 1", "a job may be smaller: set MinTRES=node= on the partition's QOS"},
  {"Nodes", taken, "", "its nodes", take_members},
  {"OverSubscribe", no_equal, "no", "cores are not shared between jobs, and nodes are not given whole: users say --exclusive"},
  {"OverTimeLimit", no_equal, "0", "a job ends at its time limit: give the partition a longer MaxTime"},
  {"PowerDownOnIdle", no_equal, "no 0 false", kNoPower},
  {"PreemptMode", taken, "", "what happens to its preempted jobs", take_partition_preempt_mode},
  {"Priority", taken, "", "its tier and its factor of priority", take_partition_priority},
  {"PriorityJobFactor", taken, "", "its factor of priority", take_partition},
  {"PriorityTier", taken, "", "its tier: jobs of a higher one go first", take_partition},
  {"QOS", taken, "", "the QOS whose limits bind all of its jobs", take_partition},
  {"ReqResv", no_equal, "no 0 false", "jobs may come without a reservation: give the partition's jobs a QOS with flags=RequiresReservation"},
  {"ResumeTimeout", no_equal, "", kNoPower},
  {"RootOnly", no_equal, "no 0 false", "everybody may submit to it: say AllowAccounts"},
  {"SelectTypeParameters", no_equal, "none cr_core cr_core_memory", "cores, memory and GPUs are chosen alike in all partitions"},
  {"Shared", no_equal, "no", "cores are not shared between jobs, and nodes are not given whole: users say --exclusive"},
  {"State", taken, "", "up, or down: jobs wait and do not start", take_partition_state},
  {"SuspendTime", no_equal, "-1 infinite", kNoPower},
  {"SuspendTimeout", no_equal, "", kNoPower},
  {"Topology", no_equal, "", "there is one topology for all partitions"},
  {"TRESBillingWeights", taken, "", "what amounts are billed", take_weights},
};

// --- gres.conf: its lines are looked at as wholes (importer.cpp) ---

constexpr std::string_view kFound = "agents find GPUs by themselves (NVML)";
constexpr ConfKey kGresRows[] = {
  {"AutoDetect", same, "", kFound},
  {"Cores", same, "", "agents find which cores lie near a GPU"},
  {"Count", same, "", kFound},
  {"CPUs", same, "", "agents find which cores lie near a GPU"},
  {"File", same, "", kFound},
  {"Files", same, "", kFound},
  {"Flags", same, "", kFound},
  {"Links", same, "", "agents find how GPUs are linked"},
  {"MultipleFiles", same, "", "MIG slices are found by the agents"},
  {"Name", same, "gpu", kFound},
  {"NodeName", same, "", "each agent looks at its own node"},
  {"Type", taken, "", "the type of GPUs where a NodeName line gives none", take_names},
};

// --- topology.conf: wire/topology_file reads it ---

constexpr ConfKey kTopologyRows[] = {
  {"BlockName", taken, "", "a block of the topology", take_names},
  {"BlockSizes", taken, "", "the sizes in which blocks go together", take_names},
  {"LinkSpeed", no_equal, "", "no part of a placement, in Slurm neither"},
  {"Nodes", taken, "", "the nodes below it", take_names},
  {"SwitchName", taken, "", "a switch of the topology", take_names},
  {"Switches", taken, "", "the switches below it", take_names},
};
// clang-format on

}  // namespace

const ConfTable kNodeKeys{"NodeName lines", kNodes}, kDownNodesKeys{"DownNodes lines", kDown},
    kFrontendKeys{"FrontendName lines", kFrontends}, kNodeSetKeys{"NodeSet lines", kNodeSets},
    kPartitionKeys{"PartitionName lines", kPartitions}, kGresKeys{"gres.conf", kGresRows},
    kTopologyKeys{"topology.conf", kTopologyRows};

}  // namespace lockstep::slurm
