// The parameters of slurm.conf that stand on a line of their own (slurm.conf(5) of 22.05 to 24.11, and older ones that
// files still have).
#include <algorithm>

#include "base/text.h"
#include "frontends/slurm/client/key_rows.h"
#include "frontends/slurm/client/sacctmgr_words.h"
#include "frontends/slurm/client/values.h"
#include "frontends/slurm/import/conf_keys.h"
#include "frontends/slurm/import/option_tables.h"
#include "frontends/slurm/import/preempt_words.h"
#include "model/tres_names.h"

namespace lockstep::slurm {

namespace {

// What sacctmgr sets by the same name.
Result<Fate> take_policy(Site& site, const ConfWord& word) {
  TRY(set_policy(site.policy, {lower(word.key), 0, word.value}));
  site.has_policy = true;
  return Fate{};
}

Result<Fate> take_priority_type(Site& site, const ConfWord& word) {
  const std::string type = lower(word.value);
  if (!is_among("priority/basic basic priority/multifactor multifactor", type))
    return invalid("priority/basic or priority/multifactor is meant");
  site.has_policy = true;
  site.by_priority = type.ends_with("multifactor");
  return Fate{Verdict::kTaken,
              site.by_priority ? "the weights of the policy" : "all weights are 0: jobs go by submission"};
}

Result<Fate> take_preempt_mode(Site& site, const ConfWord& word) {
  const PreemptWords words = TRY(preempt_words(word.value));
  site.has_policy = true;
  site.policy.preempt_mode = words.mode == PreemptMode::kCluster ? PreemptMode::kOff : words.mode;
  return preempt_fate(words);
}

Result<Fate> take_enforced(Site& site, const ConfWord& word) {
  std::vector<std::string> known, left;
  for (const std::string& name : split(lower(word.value), ',')) {
    if (name == "all")
      known.insert(known.end(), {"associations", "limits", "qos", "safe"});
    else if (is_among("nojobs nosteps wckeys", name))
      left.push_back(name);
    else if (!name.empty())
      known.push_back(name);
  }
  TRY(set_policy(site.policy, {"accountingstorageenforce", 0, join(known, ",")}));
  site.has_policy = true;
  if (left.empty())
    return Fate{};
  return Fate{Verdict::kNoEqual, format("{} has no equal: jobs and steps are always recorded, WCKeys are not enforced; "
                                        "the rest is taken",
                                        join(left, ","))};
}

Result<Fate> take_licences(Site& site, const ConfWord& word) {
  site.file.licences.clear();  // of an earlier line, which counts no more
  std::vector<std::string> local, remote;
  std::string text = word.value;
  std::replace(text.begin(), text.end(), ';', ',');
  for (const std::string& one : split(text, ','))
    if (!one.empty())
      (one.find('@') == std::string::npos ? local : remote).push_back(one);
  for (const NamedCount& licence : TRY(parse_licenses(join(local, ",")))) {
    Licence record;
    record.meta.name = licence.name;
    record.total = licence.count;
    site.file.licences.push_back(std::move(record));
  }
  if (remote.empty())
    return Fate{};
  return Fate{Verdict::kNoEqual,
              format("licences of a server ({}) are not asked for there: count them with `sacctmgr add resource`",
                     join(remote, ","))};
}

Result<Fate> take_memory_per_core(Site& site, const ConfWord& word) {
  const auto memory = parse_memory_mb(word.value);
  if (!memory)
    return invalid("a number of megabytes is meant");
  site.memory_per_core_mb = *memory;
  return Fate{};
}

Result<Fate> take_topology_plugin(Site& site, const ConfWord& word) {
  const std::string type = lower(word.value);
  site.has_topology = is_among("topology/tree tree topology/block block", type);
  if (site.has_topology)
    return Fate{Verdict::kTaken, "topology.conf becomes the topology"};
  if (is_among("topology/none none topology/default default topology/flat flat", type))
    return Fate{Verdict::kTaken, "no topology: all nodes are equally near"};
  if (is_among("topology/3d_torus 3d_torus topology/4d_torus topology/hypercube", type))
    return Fate{Verdict::kNoEqual, "there are trees and blocks only: describe the network as a tree in topology.conf"};
  return invalid("topology/tree, topology/block, topology/flat or topology/default is meant");
}

constexpr std::string_view kNoBackup =
    "there is one controller; jobs go on without it and are found again when it is back";

// The first is the controller, the others stand by.
Result<Fate> take_host(Site& site, const ConfWord&) {
  return ++site.hosts == 1 ? Fate{Verdict::kSame, {}} : Fate{Verdict::kNoEqual, std::string(kNoBackup)};
}

constexpr Verdict taken = Verdict::kTaken, same = Verdict::kSame, no_equal = Verdict::kNoEqual;
constexpr std::string_view kDatabase = "accounting needs no database server: the controller keeps history.db by itself";
constexpr std::string_view kTls =
    "every connection between machines is mutual TLS, with the cluster's own certificates";
constexpr std::string_view kNoPower = "nodes are not switched off and on: one that is started joins by itself";
constexpr std::string_view kNoHook =
    "no program runs here: put it into the jobs' scripts, or into the node's own units";
// What runs as root on a node is a setting of that node alone.
constexpr std::string_view kNodeHook = "write it into `hooks` of /etc/lockstep/agent.json on each node: docs/hooks.md";
constexpr std::string_view kNodeHealth =
    "write it into `health` of /etc/lockstep/agent.json on each node: docs/hooks.md";
constexpr std::string_view kNoSensors =
    "energy, network and file system use are not measured: ask the site's monitoring";
constexpr std::string_view kNoJobComp = "ended jobs are in history.db, which any SQL client may read, and in `sacct`";
constexpr std::string_view kPlaces = "a package settles where files lie: see docs/decisions/0009-installed.md";
constexpr std::string_view kLogs = "logs go to the journal and to `lockstep logs`, with one level for all";
constexpr std::string_view kOwnTimes = "the agents keep one connection each, with leases of their own timing";
constexpr std::string_view kNoFrequency = "frequencies are left to the system: set the governor on the nodes";
constexpr std::string_view kOldCheckpoint =
    "Slurm has it no more; `lockstep checkpoint` tells that a job's state is saved";

// clang-format off
constexpr ConfKey kRows[] = {
  {"AccountingStorageBackupHost", same, "", kDatabase},
  {"AccountingStorageEnforce", taken, "", "the policy's enforcement; limits that are set hold in any case", take_enforced},
  {"AccountingStorageExternalHost", no_equal, "none", "jobs are recorded in one place only: read the API from the other side"},
  {"AccountingStorageHost", same, "", kDatabase},
  {"AccountingStorageLoc", same, "", kDatabase},
  {"AccountingStorageParameters", same, "", kDatabase},
  {"AccountingStoragePass", same, "", kDatabase},
  {"AccountingStoragePort", same, "", kDatabase},
  {"AccountingStorageTRES", same, "", "every resource is counted: cpu, mem, node, billing, gres/gpu, each type of GPU, licences"},
  {"AccountingStorageType", same, "", kDatabase},
  {"AccountingStorageUser", same, "", kDatabase},
  {"AccountingStoreFlags", no_equal, "job_comment", "comments are kept with their jobs, scripts and environments too while these are listed; `sacct -B` is not there"},
  {"AccountingStoreJobComment", same, "", "comments are kept with the job"},
  {"AcctGatherEnergyType", no_equal, "acct_gather_energy/none none", kNoSensors},
  {"AcctGatherFilesystemType", no_equal, "acct_gather_filesystem/none none", kNoSensors},
  {"AcctGatherInfinibandType", no_equal, "acct_gather_infiniband/none none", kNoSensors},
  {"AcctGatherInterconnectType", no_equal, "acct_gather_interconnect/none none", kNoSensors},
  {"AcctGatherNodeFreq", no_equal, "0", kNoSensors},
  {"AcctGatherProfileType", no_equal, "acct_gather_profile/none none", "no profiles are written: profile the program itself"},
  {"AllowSpecResourcesUsage", no_equal, "no 0 false", "no cores are kept for the system: leave some out of the node's size"},
  {"AuthAltParameters", same, "", kTls},
  {"AuthAltTypes", same, "", kTls},
  {"AuthInfo", same, "", kTls},
  {"AuthType", same, "", "the kernel says who calls on the local socket; between machines it is mutual TLS. No munge is needed"},
  {"BackupAddr", no_equal, "", kNoBackup},
  {"BackupController", no_equal, "", kNoBackup},
  {"BatchStartTimeout", same, "", "a start that is not confirmed within 5 minutes is taken back and tried again"},
  {"BcastExclude", no_equal, "none", "`sbcast` is there and has no settings; `srun --bcast` is not"},
  {"BcastParameters", no_equal, "", "`sbcast` is there and has no settings; `srun --bcast` is not"},
  {"BurstBufferParameters", no_equal, "", "there are no burst buffers: stage data in the job's script"},
  {"BurstBufferType", no_equal, "none burst_buffer/none", "there are no burst buffers, --bb is refused: stage data in the job's script"},
  {"CacheGroups", same, "", "groups are read from the system when they are needed"},
  {"CertgenParameters", same, "", kTls},
  {"CertgenType", same, "", kTls},
  {"CertmgrParameters", same, "", kTls},
  {"CertmgrType", same, "", kTls},
  {"CheckpointType", no_equal, "none checkpoint/none", kOldCheckpoint},
  {"CliFilterParameters", no_equal, "", "commands have no plug-ins: a wrapper in the users' PATH can do what they did"},
  {"CliFilterPlugins", no_equal, "none cli_filter/none", "commands have no plug-ins: a wrapper in the users' PATH can do what they did"},
  {"ClusterName", same, "", "said once to the controller: CLUSTER_NAME in lockstepd.conf"},
  {"CommunicationParameters", same, "", kOwnTimes},
  {"CompleteWait", no_equal, "0", "a node is given on as soon as it has ended its part, without waiting for the job's others"},
  {"ControlAddr", same, "", "nodes learn the controller's address when they join"},
  {"ControlMachine", same, "", "nodes learn the controller's address when they join"},
  {"CoreSpecPlugin", no_equal, "none core_spec/none", "no cores are kept for the system: leave some out of the node's size"},
  {"CpuFreqDef", no_equal, "", kNoFrequency},
  {"CpuFreqGovernors", no_equal, "", kNoFrequency},
  {"CredType", same, "", kTls},
  {"CryptoType", same, "", kTls},
  {"DataParserParameters", same, "", "the API has one version of its own; --json keeps Slurm's shape"},
  {"DebugFlags", same, "", kLogs},
  {"DefaultStorageHost", same, "", kDatabase},
  {"DefaultStorageLoc", same, "", kDatabase},
  {"DefaultStoragePass", same, "", kDatabase},
  {"DefaultStoragePort", same, "", kDatabase},
  {"DefaultStorageType", same, "", kDatabase},
  {"DefaultStorageUser", same, "", kDatabase},
  {"DefCPUPerGPU", no_equal, "0", "no cores come with a GPU by themselves: jobs ask with --cpus-per-gpu"},
  {"DefMemPerCPU", taken, "", "memory for each core where a job names none, of every partition without its own", take_memory_per_core},
  {"DefMemPerGPU", no_equal, "0", "no memory comes with a GPU by itself: jobs ask with --mem-per-gpu"},
  {"DefMemPerNode", no_equal, "0 unlimited", "a job that names no memory is charged by DefMemPerCPU: say it so, or users ask with --mem"},
  {"DependencyParameters", no_equal, "", "", nullptr, &kDependencyOptions},
  {"DisableRootJobs", no_equal, "no 0 false", "root may submit jobs; who should not be root has no root"},
  {"EioTimeout", same, "", "what a step wrote is kept by its owner on the node until it is acknowledged; nothing times out"},
  {"EnforcePartLimits", no_equal, "", "a job above a partition's time limit is taken and waits with reason PartitionTimeLimit; one that its nodes can never hold is refused"},
  {"Epilog", no_equal, "", kNodeHook},
  {"EpilogMsgTime", same, "", "ends are reported when they happen; nothing is spread out"},
  {"EpilogSlurmctld", no_equal, "", "no program runs on the controller: follow `GET /v1/watch` of the API"},
  {"EpilogTimeout", no_equal, "", kNodeHook},
  {"ExtSensorsFreq", no_equal, "0", kNoSensors},
  {"ExtSensorsType", no_equal, "none ext_sensors/none", kNoSensors},
  {"FairShareDampeningFactor", no_equal, "1", "fair share is Slurm's Fair Tree, which does not use it"},
  {"FastSchedule", same, "", "what an agent finds on its node counts; node classes say what ought to be there, and what is less is shown"},
  {"FederationParameters", no_equal, "", "there are no federations: each cluster stands for itself"},
  {"FirstJobId", no_equal, "1", "job ids begin with 1: scripts that keep old ids apart by their size notice it"},
  {"GetEnvTimeout", same, "", "--get-user-env is a wish: jobs get the environment they were submitted with"},
  {"GpuFreqDef", no_equal, "", kNoFrequency},
  {"GresTypes", same, "", "agents find GPUs by themselves; --gres=gpu and mps (shares of a GPU) work. Other kinds do not exist"},
  {"GroupUpdateForce", same, "", "groups are read when a user first comes, and now and then again"},
  {"GroupUpdateTime", same, "", "groups are read when a user first comes, and now and then again"},
  {"HashPlugin", same, "", kTls},
  {"HealthCheckInterval", no_equal, "0", kNodeHealth},
  {"HealthCheckNodeState", no_equal, "", kNodeHealth},
  {"HealthCheckProgram", no_equal, "", kNodeHealth},
  {"HttpParserType", same, "", "the controller speaks HTTP by itself"},
  {"InactiveLimit", no_equal, "60", "an allocation whose client is gone for 60 seconds ends, whatever is set"},
  {"InteractiveStepOptions", no_equal, "", "`salloc` opens its shell where it is called: use `srun --pty bash` for one on a node"},
  {"JobAcctGatherFrequency", no_equal, "0", "what steps used is counted as they end (`sacct -o MaxRSS,TotalCPU`); running ones are not sampled"},
  {"JobAcctGatherParams", no_equal, "", "what steps used is counted as they end (`sacct -o MaxRSS,TotalCPU`); running ones are not sampled"},
  {"JobAcctGatherType", no_equal, "none jobacct_gather/none", "what steps used is counted as they end (`sacct -o MaxRSS,TotalCPU`); running ones are not sampled"},
  {"JobCheckpointDir", no_equal, "", kOldCheckpoint},
  {"JobCompHost", no_equal, "", kNoJobComp},
  {"JobCompLoc", no_equal, "", kNoJobComp},
  {"JobCompParams", no_equal, "", kNoJobComp},
  {"JobCompPass", no_equal, "", kNoJobComp},
  {"JobCompPassScript", no_equal, "", kNoJobComp},
  {"JobCompPort", no_equal, "", kNoJobComp},
  {"JobCompType", no_equal, "none jobcomp/none", kNoJobComp},
  {"JobCompUser", no_equal, "", kNoJobComp},
  {"JobContainerType", no_equal, "none job_container/none", "jobs see the node's own /tmp: let scripts make and remove a directory"},
  {"JobCredentialPrivateKey", same, "", kTls},
  {"JobCredentialPublicCertificate", same, "", kTls},
  {"JobFileAppend", no_equal, "0", "a run that starts again writes its output anew: ask with --open-mode=append"},
  {"JobRequeue", no_equal, "1", "jobs may be started again after a node's loss: users who do not want it say --no-requeue"},
  {"JobSubmitPlugins", no_equal, "none", "submissions pass no plug-in: limits, QOS and partitions can do much of what it did, a wrapper of sbatch the rest"},
  {"KeepAliveTime", same, "", kOwnTimes},
  {"KillOnBadExit", no_equal, "0", "a step goes on when one of its tasks fails: ask with `srun -K`, or set SLURM_KILL_BAD_EXIT=1 for everybody"},
  {"KillWait", no_equal, "30", "30 seconds lie between SIGTERM and SIGKILL: jobs that need longer ask to be told sooner, --signal=TERM@120"},
  {"LaunchParameters", no_equal, "", "", nullptr, &kLaunchOptions},
  {"LaunchType", same, "", "steps are started by the agents"},
  {"Licenses", taken, "", "licences", take_licences},
  {"LogTimeFormat", same, "", kLogs},
  {"MailDomain", no_equal, "", "nobody is written to: --mail-type is taken and has no effect"},
  {"MailProg", no_equal, "", "nobody is written to: --mail-type is taken and has no effect"},
  {"MaxArraySize", same, "", "arrays may have indices up to 1,000,000,000"},
  {"MaxBatchRequeue", no_equal, "5", "after 5 automatic starts a job is held"},
  {"MaxDBDMsgs", same, "", kDatabase},
  {"MaxJobCount", same, "", "2,000,000 jobs at most, 100,000 waiting ones of each user; an array counts once"},
  {"MaxJobId", same, "", "ids go on and on; none is given twice"},
  {"MaxMemPerCPU", no_equal, "0 unlimited", "memory for each core is not bounded: set MaxTRESPerNode=mem= on a QOS"},
  {"MaxMemPerNode", no_equal, "0 unlimited", "memory on a node is not bounded: set MaxTRESPerNode=mem= on a QOS"},
  {"MaxNodeCount", same, "", "nodes join at any time; no number is set aside"},
  {"MaxStepCount", same, "40000", "40,000 steps of a job"},
  {"MaxTasksPerNode", same, "", "4,096 tasks of a step on a node"},
  {"MCSParameters", no_equal, "", "there are no MCS labels: --exclusive keeps nodes apart"},
  {"MCSPlugin", no_equal, "none mcs/none", "there are no MCS labels: --exclusive keeps nodes apart"},
  {"MemLimitEnforce", no_equal, "no 0 false", "memory is counted and not enforced: a job that takes more than it asked for is not killed"},
  {"MessageTimeout", same, "", kOwnTimes},
  {"MetricsType", same, "", "the controller answers /metrics for Prometheus"},
  {"MinJobAge", no_equal, "300", "ended jobs are listed by squeue and scontrol for 300 seconds, and by sacct for good"},
  {"MpiDefault", no_equal, "none", "users say it: srun --mpi=pmix or --mpi=pmi2, or SLURM_MPI_TYPE in the environment"},
  {"MpiParams", no_equal, "", "no ports are set aside for MPI"},
  {"NamespaceType", no_equal, "none namespace/none", "jobs see the node's own /tmp: let scripts make and remove a directory"},
  {"NodeFeaturesPlugins", no_equal, "", "features do not change while a node runs: set them with `scontrol update NodeName= Features=`"},
  {"OverTimeLimit", no_equal, "0", "a job ends at its time limit: give the partition a longer MaxTime"},
  {"PluginDir", same, "", "there are no plug-ins"},
  {"PlugStackConfig", no_equal, "", "SPANK plug-ins are not loaded: their options are unknown to sbatch and srun"},
  {"PowerParameters", no_equal, "", kNoPower},
  {"PowerPlugin", no_equal, "none power/none", kNoPower},
  {"PreemptExemptTime", taken, "", "no job is preempted before it ran so long", take_policy},
  {"PreemptMode", taken, "", "what happens to preempted jobs", take_preempt_mode},
  {"PreemptParameters", no_equal, "", "", nullptr, &kPreemptOptions},
  {"PreemptType", taken, "", "who may preempt whom", take_policy},
  {"PrEpParameters", no_equal, "", kNoHook},
  {"PrEpPlugins", no_equal, "none prep/script", kNoHook},
  {"PriorityCalcPeriod", taken, "", "how often ages and fair shares are looked at", take_policy},
  {"PriorityDecayHalfLife", taken, "", "past use counts half after that time", take_policy},
  {"PriorityFavorSmall", taken, "", "smaller jobs get the higher factor of size", take_policy},
  {"PriorityFlags", no_equal, "", "", nullptr, &kPriorityOptions},
  {"PriorityMaxAge", taken, "", "a job's age counts no more beyond it", take_policy},
  {"PriorityParameters", no_equal, "", "there are no further parameters of priority"},
  {"PrioritySiteFactorParameters", no_equal, "", "there is no factor of the site: an administrator sets a job's priority by `scontrol update`"},
  {"PrioritySiteFactorPlugin", no_equal, "none site_factor/none", "there is no factor of the site: an administrator sets a job's priority by `scontrol update`"},
  {"PriorityType", taken, "", "", take_priority_type},
  {"PriorityUsageResetPeriod", taken, "", "past use is forgotten that often", take_policy},
  {"PriorityWeightAge", taken, "", "the weight of a job's age", take_policy},
  {"PriorityWeightAssoc", taken, "", "the weight of the association's priority", take_policy},
  {"PriorityWeightFairshare", taken, "", "the weight of fair share", take_policy},
  {"PriorityWeightJobSize", taken, "", "the weight of a job's size", take_policy},
  {"PriorityWeightPartition", taken, "", "the weight of PriorityJobFactor", take_policy},
  {"PriorityWeightQOS", taken, "", "the weight of the QOS", take_policy},
  {"PriorityWeightTRES", taken, "", "weights of the resources asked for", take_policy},
  {"PrivateData", no_equal, "none", "names, accounts, states and times of jobs are seen by everybody; scripts and environments by their owner only"},
  {"ProctrackType", same, "", "every process of a step has one owner on its node, which finds and ends them all"},
  {"Prolog", no_equal, "", kNodeHook},
  {"PrologEpilogTimeout", no_equal, "", kNodeHook},
  {"PrologFlags", no_equal, "", "", nullptr, &kPrologOptions},
  {"PrologSlurmctld", no_equal, "", "no program runs on the controller: follow `GET /v1/watch` of the API"},
  {"PrologTimeout", no_equal, "", kNodeHook},
  {"PropagatePrioProcess", no_equal, "0", "jobs run with the agent's nice value: say `nice` in the script"},
  {"PropagateResourceLimits", no_equal, "all", "a job has the soft limits of the shell that submitted it: users say --propagate=NONE or names"},
  {"PropagateResourceLimitsExcept", no_equal, "", "a job has the soft limits of the shell that submitted it: users say --propagate=NAMES"},
  {"RebootProgram", no_equal, "", "`scontrol reboot` is not there: drain the node, reboot it, resume it"},
  {"ReconfigFlags", same, "", "every change holds at once and is kept; nothing is read again"},
  {"RequeueExit", no_equal, "", "exit codes do not start a job again: let the script end with `scontrol requeue $SLURM_JOB_ID`"},
  {"RequeueExitHold", no_equal, "", "exit codes do not hold a job: let the script end with `scontrol requeuehold $SLURM_JOB_ID`"},
  {"ResumeFailProgram", no_equal, "", kNoPower},
  {"ResumeProgram", no_equal, "", kNoPower},
  {"ResumeRate", no_equal, "", kNoPower},
  {"ResumeTimeout", no_equal, "", kNoPower},
  {"ResvEpilog", no_equal, "", "no program runs when a reservation ends: follow `GET /v1/watch` of the API"},
  {"ResvOverRun", no_equal, "0", "jobs end with their reservation"},
  {"ResvProlog", no_equal, "", "no program runs when a reservation begins: follow `GET /v1/watch` of the API"},
  {"ReturnToService", same, "", "a node that was away is used as soon as its agent is back, unless somebody drained it"},
  {"RoutePlugin", same, "", "messages find their way by themselves, as a tree above 32 nodes"},
  {"SallocDefaultCommand", no_equal, "", "`salloc` opens the user's shell where it is called: use `srun --pty bash` for one on a node"},
  {"SbcastParameters", no_equal, "", "`sbcast` is there and has no settings; `srun --bcast` is not"},
  {"SchedulerAuth", same, "", "the scheduler is part of the controller"},
  {"SchedulerParameters", no_equal, "", "", nullptr, &kSchedulerOptions},
  {"SchedulerPort", same, "", "the scheduler is part of the controller"},
  {"SchedulerRootFilter", same, "", "the scheduler is part of the controller"},
  {"SchedulerTimeSlice", no_equal, "", "jobs do not take turns on the same cores: see PreemptMode=suspend"},
  {"SchedulerType", same, "", "every waiting job is planned for, always: the head of a partition has a time and a place, others go ahead of it where they fit"},
  {"ScronParameters", no_equal, "", "`scrontab` is not there: use cron or a timer that calls sbatch"},
  {"SelectType", no_equal, "select/cons_tres cons_tres select/cons_res cons_res", "jobs get cores, memory and GPUs, not whole nodes: users say --exclusive"},
  {"SelectTypeParameters", no_equal, "", "", nullptr, &kSelectOptions},
  {"SlurmctldAddr", same, "", "nodes learn the controller's address when they join"},
  {"SlurmctldDebug", same, "", kLogs},
  {"SlurmctldHost", same, "", "nodes learn the controller's address when they join", take_host},
  {"SlurmctldLogFile", same, "", kLogs},
  {"SlurmctldParameters", no_equal, "", "", nullptr, &kControllerOptions},
  {"SlurmctldPidFile", same, "", kPlaces},
  {"SlurmctldPlugstack", no_equal, "none", "the controller loads no plug-ins"},
  {"SlurmctldPort", same, "", "said once to the controller: LISTEN in lockstepd.conf"},
  {"SlurmctldPrimaryOffProg", no_equal, "", kNoBackup},
  {"SlurmctldPrimaryOnProg", no_equal, "", kNoBackup},
  {"SlurmctldSyslogDebug", same, "", kLogs},
  {"SlurmctldTimeout", same, "", "there is no second controller that would wait so long"},
  {"SlurmdDebug", same, "", kLogs},
  {"SlurmdLogFile", same, "", kLogs},
  {"SlurmdParameters", no_equal, "", "", nullptr, &kAgentOptions},
  {"SlurmdPidFile", same, "", kPlaces},
  {"SlurmdPort", same, "", "agents dial out: a node needs no open port"},
  {"SlurmdSpoolDir", same, "", kPlaces},
  {"SlurmdSyslogDebug", same, "", kLogs},
  {"SlurmdTimeout", same, "", "a node that is silent for 30 seconds gets no new work; its jobs start elsewhere once they are proven stopped"},
  {"SlurmdUser", same, "", "agents run as root, since they start jobs as their users"},
  {"SlurmSchedLogFile", same, "", kLogs},
  {"SlurmSchedLogLevel", same, "", kLogs},
  {"SlurmUser", same, "", "a package makes the user \"lockstep\" for the controller"},
  {"SrunEpilog", no_equal, "", "set SLURM_EPILOG for everybody, in /etc/profile.d: srun runs it on its own machine"},
  {"SrunPortRange", same, "", "srun opens no ports: output comes through the agents"},
  {"SrunProlog", no_equal, "", "set SLURM_PROLOG for everybody, in /etc/profile.d: srun runs it on its own machine"},
  {"StateSaveLocation", same, "", "the controller's log is in /var/lib/lockstep/controller; nothing that was acknowledged is lost"},
  {"SuspendExcNodes", no_equal, "", kNoPower},
  {"SuspendExcParts", no_equal, "", kNoPower},
  {"SuspendExcStates", no_equal, "", kNoPower},
  {"SuspendProgram", no_equal, "", kNoPower},
  {"SuspendRate", no_equal, "", kNoPower},
  {"SuspendTime", no_equal, "-1 infinite", kNoPower},
  {"SuspendTimeout", no_equal, "", kNoPower},
  {"SwitchParameters", no_equal, "", "the network is left as it is: no plug-in sets it up for a job"},
  {"SwitchType", no_equal, "none switch/none", "the network is left as it is: no plug-in sets it up for a job"},
  {"TaskEpilog", no_equal, "", kNodeHook},
  {"TaskPlugin", no_equal, "none task/none", "jobs are not confined: no cgroups and no core binding yet. CUDA_VISIBLE_DEVICES names a job's GPUs"},
  {"TaskPluginParam", no_equal, "none", "tasks are not bound to cores: programs bind themselves (OMP_PROC_BIND, numactl)"},
  {"TaskProlog", no_equal, "", kNodeHook},
  {"TCPTimeout", same, "", kOwnTimes},
  {"TLSParameters", same, "", kTls},
  {"TLSType", same, "", kTls},
  {"TmpFS", no_equal, "/tmp", "--tmp looks at the size of /tmp"},
  {"TopologyParam", no_equal, "", "", nullptr, &kTopologyOptions},
  {"TopologyPlugin", taken, "", "", take_topology_plugin},
  {"TrackWCKey", no_equal, "no 0 false", "--wckey is kept with the job; use is not added up by it"},
  {"TreeWidth", same, "", "messages find their way by themselves, as a tree above 32 nodes"},
  {"UnkillableStepProgram", no_equal, "", "no program runs: the node is drained with reason `Kill task failed`, and opened again when the job has ended"},
  {"UnkillableStepTimeout", no_equal, "60", "said to the controller: OPTIONS=--unkillable-after SECONDS in lockstepd.conf"},
  {"UrlParserType", same, "", "the controller speaks HTTP by itself"},
  {"UsePAM", no_equal, "no 0 false", "no PAM session is opened for a job: limits are those of the submitting shell"},
  {"VSizeFactor", no_equal, "0", "virtual memory is not bounded: say `ulimit -v` in the script"},
  {"WaitTime", no_equal, "0", "a step waits for all of its tasks: ask with `srun --wait=SECONDS`, or set SLURM_WAIT for everybody"},
  {"X11Parameters", no_equal, "", "--x11 is refused: forward X by ssh"},
};
// clang-format on

}  // namespace

const ConfTable kClusterKeys{"slurm.conf", kRows};

}  // namespace lockstep::slurm
