#include "frontends/slurm/import/option_tables.h"

#include "base/text.h"
#include "frontends/slurm/client/values.h"
#include "frontends/slurm/import/preempt_words.h"

namespace lockstep::slurm {

Result<PreemptWords> preempt_words(const std::string& text) {
  PreemptWords out;
  for (const std::string& word : split(lower(text), ',')) {
    if (word == "gang") {
      out.gang = true;
    } else if (word == "within") {
      out.within = true;
    } else if (!word.empty()) {
      const auto mode = parse_preempt_mode(word);
      if (!mode)
        return invalid(format("\"{}\" is none of off, cancel, requeue, suspend, gang, within", word));
      out.mode = *mode;
    }
  }
  return out;
}

Fate preempt_fate(const PreemptWords& words) {
  if (words.within)
    return {Verdict::kNoEqual, "jobs of one QOS do not preempt each other (WITHIN); the rest is taken"};
  if (words.gang && words.mode != PreemptMode::kSuspend)
    return {Verdict::kNoEqual, "jobs do not take turns on the same cores (GANG); the rest is taken"};
  return {};
}

namespace {

constexpr Verdict same = Verdict::kSame, no_equal = Verdict::kNoEqual;

constexpr std::string_view kWholeQueue = "the whole queue is planned, in slices that keep nobody waiting";
constexpr std::string_view kHetJobs = "the parts of a het job are granted together or not at all";
constexpr std::string_view kNoTune = "the planner has no such setting";

// clang-format off
constexpr ConfKey kScheduler[] = {
  {"allow_zero_lic", no_equal, "", "a job that asks for more licences than there are is refused"},
  {"assoc_limit_stop", no_equal, "", "a job that waits for a limit does not keep back others of its partition"},
  {"batch_sched_delay", same, "", "a job that fits is proposed at once, also in the middle of a pass"},
  {"bb_array_stage_cnt", no_equal, "", "there are no burst buffers"},
  {"bf_allow_magnetic_slot", same, "", "magnetic reservations draw jobs at every plan"},
  {"bf_busy_nodes", same, "", "busy nodes are preferred where the price of packing says so"},
  {"bf_continue", same, "", "a plan goes on where it stopped; what changed meanwhile is looked at again"},
  {"bf_hetjob_immediate", same, "", kHetJobs},
  {"bf_hetjob_prio", same, "", kHetJobs},
  {"bf_interval", same, "", "there is no pass to wait for: the planner works whenever something changed"},
  {"bf_job_part_count_reserve", same, "", "one head of each partition has a time and a place"},
  {"bf_licenses", same, "", "licences are planned over time, too"},
  {"bf_max_job_array_resv", same, "", kWholeQueue},
  {"bf_max_job_assoc", no_equal, "0", "how many jobs of one association are planned is not bounded: MaxJobs bounds how many run"},
  {"bf_max_job_part", same, "", kWholeQueue},
  {"bf_max_job_start", same, "", kWholeQueue},
  {"bf_max_job_test", same, "", kWholeQueue},
  {"bf_max_job_user", no_equal, "0", "how many jobs of one user are planned is not bounded: MaxJobsPU of a QOS bounds how many run"},
  {"bf_max_job_user_part", no_equal, "0", "how many jobs of one user are planned is not bounded: MaxJobsPU of a QOS bounds how many run"},
  {"bf_max_time", same, "", kWholeQueue},
  {"bf_min_age_reserve", no_equal, "0", "the head of a partition is promised its place once it is overdue, whatever its age"},
  {"bf_min_prio_reserve", no_equal, "0", "which jobs get no promise is said by a QOS: MinPrioThreshold, flags=NoReserve"},
  {"bf_node_space_size", same, "", "the calendar has about a thousand columns, whatever the queue"},
  {"bf_one_resv_per_job", same, "", "a job has one promise at most"},
  {"bf_resolution", same, "", "the calendar's columns are fine soon and coarse later"},
  {"bf_running_job_reserve", same, "", "what runs has its place until its limit"},
  {"bf_topopt_enable", same, "", "gangs get the tightest place of the tree"},
  {"bf_topopt_iterations", same, "", "gangs get the tightest place of the tree"},
  {"bf_window", same, "", "every waiting job has a time, however far away"},
  {"bf_window_linear", same, "", "the calendar's columns are fine soon and coarse later"},
  {"bf_yield_interval", same, "", "plans hold no locks: nobody waits for one"},
  {"bf_yield_sleep", same, "", "plans hold no locks: nobody waits for one"},
  {"build_queue_timeout", same, "", kWholeQueue},
  {"correspond_after_task_cnt", same, "", "elements of arrays that depend on each other are kept as ranges"},
  {"default_queue_depth", same, "", kWholeQueue},
  {"defer", same, "", "submissions are answered when they are stored; planning is never in their way"},
  {"defer_batch", same, "", "submissions are answered when they are stored; planning is never in their way"},
  {"delay_boot", no_equal, "0", "nodes are not switched off and on"},
  {"disable_hetjob_steps", no_equal, "", "steps may not go over parts of a het job in any case"},
  {"disable_job_shrink", no_equal, "", "jobs do not shrink by `scontrol update` in any case; elastic groups do by themselves"},
  {"enable_hetjob_steps", no_equal, "", "one step over several parts of a het job (srun a : b) is not there"},
  {"enable_job_state_cache", same, "", "reading never waits for the scheduler"},
  {"enable_user_top", no_equal, "", "`scontrol top` is not there: users order their jobs by --nice"},
  {"extra_constraints", no_equal, "", "--extra is a wish without effect: use features and --constraint"},
  {"ignore_constraint_validation", no_equal, "", "a constraint that no node can meet is refused"},
  {"Ignore_NUMA", same, "", "cores are counted by what the kernel calls a core"},
  {"ignore_prefer_validation", same, "", "--prefer is a wish without effect"},
  {"inventory_interval", no_equal, "0", kNoTune},
  {"max_array_tasks", no_equal, "", "how many elements an array has is not bounded: MaxSubmitJobs of an association bounds it"},
  {"max_rpc_cnt", same, "", "callers have their own turns, and none keeps others waiting"},
  {"max_sched_time", same, "", kWholeQueue},
  {"max_script_size", same, "", "a script may have 16 MiB"},
  {"max_submit_line_size", same, "", "the words of a submission may have 1 MiB"},
  {"max_switch_wait", no_equal, "", "--switches=N@TIME waits as long as it says"},
  {"no_backup_scheduling", same, "", "there is one controller"},
  {"no_env_cache", same, "", "a job whose environment cannot be had fails with a message"},
  {"nohold_on_prolog_fail", same, "", "a job whose prolog fails starts elsewhere, and is held when three nodes were closed for it"},
  {"pack_serial_at_end", same, "", "small jobs go where the price of packing is lowest"},
  {"partition_job_depth", same, "", kWholeQueue},
  {"preempt_reorder_count", same, "", "of all sets of victims the one that loses the least is taken"},
  {"preempt_strict_order", no_equal, "", "of all sets of victims the one that loses the least goes, whatever its order"},
  {"preempt_youngest_first", no_equal, "", "of all sets of victims the one that loses the least goes: GPU-seconds since the last checkpoint"},
  {"reduce_completing_frag", same, "", "what a job gives back is free at once"},
  {"requeue_setup_env_fail", no_equal, "", "a job whose environment cannot be had fails"},
  {"salloc_wait_nodes", same, "", "an allocation is granted when its nodes are up"},
  {"sbatch_wait_nodes", same, "", "a script starts when its nodes are up"},
  {"sched_interval", same, "", "there is no pass to wait for: the planner works whenever something changed"},
  {"sched_max_job_start", same, "", kWholeQueue},
  {"sched_min_interval", same, "", "there is no pass to wait for: the planner works whenever something changed"},
  {"spec_cores_first", no_equal, "", "no cores are kept for the system"},
  {"step_retry_count", same, "", "waiting steps start as soon as there is room"},
  {"step_retry_time", same, "", "waiting steps start as soon as there is room"},
  {"time_min_as_soft_limit", no_equal, "", "--time-min lets a job start with less time; its limit then holds"},
  {"whole_hetjob", same, "", kHetJobs},
};

constexpr ConfKey kSelect[] = {
  {"CR_CPU", same, "", "a CPU is a core here: its hardware threads go to one job together"},
  {"CR_CPU_Memory", same, "", "cores and memory; a CPU is a core here: its hardware threads go to one job together"},
  {"CR_Core", same, "", "cores. Memory is counted where jobs ask for it"},
  {"CR_Core_Memory", same, "", "cores and memory"},
  {"CR_Socket", no_equal, "", "cores are given out one by one, not by sockets: users ask for --exclusive nodes"},
  {"CR_Socket_Memory", no_equal, "", "cores are given out one by one, not by sockets: users ask for --exclusive nodes"},
  {"CR_Memory", no_equal, "", "cores are counted, too: they are not shared between jobs"},
  {"CR_ONE_TASK_PER_CORE", same, "", "a task has whole cores"},
  {"CR_CORE_DEFAULT_DIST_BLOCK", same, "", "cores are filled block by block"},
  {"CR_LLN", no_equal, "", "jobs go where the price of packing is lowest, not to the emptiest node"},
  {"CR_Pack_Nodes", no_equal, "", "tasks are spread over the nodes of the job: users say --ntasks-per-node to pack them"},
  {"OTHER_CONS_RES", same, "", "cores, memory and GPUs are chosen in any case"},
  {"OTHER_CONS_TRES", same, "", "cores, memory and GPUs are chosen in any case"},
  {"NHC_No", same, "", "no health check runs between jobs"},
  {"NHC_No_Steps", same, "", "no health check runs between jobs"},
  {"ENFORCE_BINDING_GRES", no_equal, "", "which cores lie near a GPU is a preference, no rule"},
  {"MULTIPLE_SHARING_GRES_PJ", no_equal, "", "a job has shares of one GPU a task"},
  {"LL_SHARED_GRES", no_equal, "", "shares of GPUs go where the price of packing is lowest"},
};

constexpr ConfKey kPriority[] = {
  {"ACCRUE_ALWAYS", no_equal, "", "a job ages from when it may start: not while it waits for a time or a dependency"},
  {"CALCULATE_RUNNING", no_equal, "", "the priority of running jobs is not worked out again"},
  {"DEPTH_OBLIVIOUS", no_equal, "", "fair share is Slurm's Fair Tree"},
  {"FAIR_TREE", same, "", "fair share is Slurm's Fair Tree"},
  {"NO_FAIR_TREE", no_equal, "", "fair share is Slurm's Fair Tree, and not the older formula"},
  {"INCR_ONLY", no_equal, "", "a priority may fall as its factors do"},
  {"MAX_TRES", no_equal, "", "billing adds up the weighted resources: lower the weights, so that one of them counts"},
  {"MAX_TRES_GRES", no_equal, "", "billing adds up the weighted resources: lower the weights, so that one of them counts"},
  {"NO_NORMAL_ALL", no_equal, "", "factors are shares of the highest one: scale the weights"},
  {"NO_NORMAL_ASSOC", no_equal, "", "factors are shares of the highest one: scale PriorityWeightAssoc"},
  {"NO_NORMAL_PART", no_equal, "", "factors are shares of the highest one: scale PriorityWeightPartition"},
  {"NO_NORMAL_QOS", no_equal, "", "factors are shares of the highest one: scale PriorityWeightQOS"},
  {"NO_NORMAL_TRES", no_equal, "", "factors are shares of the largest job: scale PriorityWeightTRES"},
  {"SMALL_RELATIVE_TO_TIME", no_equal, "", "a job's size is its cores and nodes, whatever its time limit"},
};

constexpr ConfKey kPreempt[] = {
  {"min_exempt_priority", no_equal, "", "no priority keeps a job from being preempted: give it a QOS that nobody may preempt"},
  {"reclaim_licenses", no_equal, "", "jobs are not preempted for licences"},
  {"reorder_count", same, "", "of all sets of victims the one that loses the least is taken"},
  {"send_user_signal", same, "", "a job that has --signal is told by it before it goes (PreemptMode=checkpoint)"},
  {"strict_order", no_equal, "", "of all sets of victims the one that loses the least goes, whatever its order"},
  {"suspend_grace_time", no_equal, "", "a suspended job gets no warning"},
  {"youngest_first", no_equal, "", "of all sets of victims the one that loses the least goes: GPU-seconds since the last checkpoint"},
};

constexpr ConfKey kProlog[] = {
  {"Alloc", same, "", "a prolog runs on every node of an allocation when that is made"},
  {"Contain", same, "", "all processes of a job have one owner on their node"},
  {"DeferBatch", same, "", "a script starts when its nodes have answered"},
  {"ForceRequeueOnFail", same, "", "a batch job whose prolog fails is requeued, whatever its user said of that"},
  {"NoHold", same, "", "an allocation is told of at once; its steps wait for the prologs of their nodes"},
  {"RunInJob", no_equal, "", "prolog and epilog run beside the job, with what the node has"},
  {"Serial", no_equal, "", "prologs of several jobs may run at the same time: let the program take a lock (flock)"},
  {"X11", no_equal, "", "--x11 is refused: forward X by ssh"},
};

constexpr ConfKey kDependency[] = {
  {"disable_remote_singleton", same, "", "there are no federations: singleton is meant in this cluster"},
  {"kill_invalid_depend", no_equal, "", "said to the controller: OPTIONS=--kill-invalid-depend in lockstepd.conf"},
  {"max_depend_depth", same, "", "circles are found however long they are"},
};

constexpr ConfKey kLaunch[] = {
  {"batch_step_set_cpu_freq", no_equal, "", "frequencies are left to the system"},
  {"cray_net_exclusive", no_equal, "", "the network is left as it is"},
  {"disable_send_gids", same, "", "groups are read on the controller and sent"},
  {"enable_nss_slurm", no_equal, "", "jobs look names up in the node's own user database"},
  {"lustre_no_flush", same, "", "nothing is flushed behind a job"},
  {"mem_sort", no_equal, "", "memory is not sorted before a step"},
  {"mpir_use_nodeaddr", no_equal, "", "debuggers are not helped to attach"},
  {"slurmstepd_memlock", no_equal, "", "owners of steps are not locked in memory"},
  {"slurmstepd_memlock_all", no_equal, "", "owners of steps are not locked in memory"},
  {"test_exec", same, "", "a program that is not there fails with a message on each node"},
  {"ulimit_pam_adopt", no_equal, "", "logins by ssh are not adopted by jobs"},
  {"use_interactive_step", no_equal, "", "`salloc` opens its shell where it is called: use `srun --pty bash` for one on a node"},
};

constexpr ConfKey kController[] = {
  {"allow_user_triggers", no_equal, "", "`strigger` is not there: follow `GET /v1/watch` of the API"},
  {"cloud_dns", same, "", "agents dial out: no name of a node is looked up"},
  {"cloud_reg_addrs", same, "", "a node's address is what its agent says"},
  {"conmgr_max_connections", same, "", "connections are bounded by caller"},
  {"conmgr_threads", same, "", "one thread serves all connections"},
  {"disable_triggers", same, "", "there are no triggers"},
  {"enable_configless", same, "", "nodes need no file: the controller tells them all"},
  {"enable_job_state_cache", same, "", "reading never waits for the scheduler"},
  {"enable_rpc_queue", same, "", "every request has its turn"},
  {"enable_stepmgr", same, "", "steps are light: no job needs a manager of its own"},
  {"idle_on_node_suspend", no_equal, "", "nodes are not switched off and on"},
  {"job_state_cache_threads", same, "", "reading never waits for the scheduler"},
  {"max_dbd_msg_action", same, "", "accounting is never dropped: the log is trimmed only behind it"},
  {"max_powered_nodes", no_equal, "", "nodes are not switched off and on"},
  {"no_quick_restart", same, "", "a controller that is told to stop has stopped when it says so"},
  {"node_reg_mem_percent", no_equal, "100", "a node with less than its class says is shown, and is used all the same"},
  {"power_save_interval", no_equal, "", "nodes are not switched off and on"},
  {"power_save_min_interval", no_equal, "", "nodes are not switched off and on"},
  {"preempt_send_user_signal", same, "", "a job that has --signal is told by it before it goes (PreemptMode=checkpoint)"},
  {"reboot_from_controller", no_equal, "", "`scontrol reboot` is not there: drain the node, reboot it, resume it"},
  {"requeue_on_resume_failure", same, "", "a job whose node is lost starts elsewhere"},
  {"rl_enable", same, "", "requests of each caller are bounded, always: 2,000 a second, 4,000 at once"},
  {"rl_bucket_size", same, "", "requests of each caller are bounded, always: 2,000 a second, 4,000 at once"},
  {"rl_log_freq", same, "", "refusals are counted in /metrics"},
  {"rl_refill_period", same, "", "requests of each caller are bounded, always: 2,000 a second, 4,000 at once"},
  {"rl_refill_rate", same, "", "requests of each caller are bounded, always: 2,000 a second, 4,000 at once"},
  {"rl_table_size", same, "", "requests of each caller are bounded, always: 2,000 a second, 4,000 at once"},
  {"user_resv_delete", no_equal, "", "reservations are removed by administrators"},
  {"validate_nodeaddr_threads", same, "", "agents dial out: no name of a node is looked up"},
};

constexpr ConfKey kAgent[] = {
  {"allow_ecores", same, "", "every core that the kernel shows counts"},
  {"config_overrides", no_equal, "", "what an agent finds on its node counts: a class does not make it larger"},
  {"conmgr_max_connections", same, "", "connections are bounded by caller"},
  {"conmgr_threads", same, "", "one thread serves all connections"},
  {"contain_spank", no_equal, "", "SPANK plug-ins are not loaded"},
  {"l3cache_as_socket", no_equal, "", "sockets are what the kernel calls so"},
  {"numa_node_as_socket", no_equal, "", "sockets are what the kernel calls so"},
  {"shutdown_on_reboot", same, "", "systemd starts and stops the agent; jobs outlive it"},
};

constexpr ConfKey kTopology[] = {
  {"BlockAsNodeRank", same, "", "ranks go along the tree"},
  {"Dragonfly", no_equal, "", "there are trees and blocks only: the groups of a dragonfly are leaves under one spine"},
  {"RouteTree", same, "", "messages find their way by themselves, as a tree above 32 nodes"},
  {"RoutePart", same, "", "messages find their way by themselves, as a tree above 32 nodes"},
  {"SwitchAsNodeRank", same, "", "ranks go along the tree"},
  {"TopoMaxSizeUnroll", no_equal, "-1", "the planner has no such setting"},
  {"TopoOptional", no_equal, "", "the tree counts for every job of several nodes"},
  {"NoCtldInAddrAny", same, "", "said once to the controller: LISTEN in lockstepd.conf"},
  {"NoInAddrAny", same, "", "agents dial out: they listen to nobody"},
};
// clang-format on

}  // namespace

const ConfTable kSchedulerOptions{"SchedulerParameters", kScheduler}, kSelectOptions{"SelectTypeParameters", kSelect},
    kPriorityOptions{"PriorityFlags", kPriority}, kPreemptOptions{"PreemptParameters", kPreempt},
    kPrologOptions{"PrologFlags", kProlog}, kDependencyOptions{"DependencyParameters", kDependency},
    kLaunchOptions{"LaunchParameters", kLaunch}, kControllerOptions{"SlurmctldParameters", kController},
    kAgentOptions{"SlurmdParameters", kAgent}, kTopologyOptions{"TopologyParam", kTopology};

}  // namespace lockstep::slurm
