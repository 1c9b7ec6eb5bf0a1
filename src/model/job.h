// Job: what a user asked for, and how far it has come.
//
// A job has groups of equal tasks. Its allocation is granted whole or not at all and is held by one attempt; a requeue
// starts the next attempt under the same id. How a group runs is its Launch:
//   kScript  one process, the batch script, starts on the first node; its end ends the job (sbatch)
//   kNothing the allocation waits for steps from outside; a client or a command ends it (salloc, srun)
//   kTasks   the cluster starts every task and replaces each by the group's restart rule (pods, replicas, SkyPilot
//   runs)
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/interval_set.h"
#include "base/shared.h"
#include "base/time.h"
#include "model/ids.h"
#include "model/meta.h"
#include "model/preempt_mode.h"
#include "model/resources.h"
#include "model/tres.h"

namespace lockstep {

enum class Launch : unsigned char { kScript, kNothing, kTasks };
enum class RestartRule : unsigned char { kNever, kOnFailure, kAlways };
enum class Sharing : unsigned char { kShared, kExclusive, kExclusiveUser };

struct CountRange {
  std::uint32_t min = 0;
  std::uint32_t max = 0;
  friend bool operator==(const CountRange&, const CountRange&) = default;
};

struct Port {
  std::string name;
  std::uint16_t port = 0;
  friend bool operator==(const Port&, const Port&) = default;
};

struct Probe {
  enum class What : unsigned char { kStartup, kReadiness, kLiveness } what = What::kReadiness;
  enum class How : unsigned char { kHttp, kTcp, kExec } how = How::kHttp;
  std::string path;  // kHttp
  std::uint16_t port = 0;
  std::vector<std::string> argv;  // kExec
  std::string post_data;          // kHttp: POST instead of GET when set
  Duration initial_delay, period = seconds(10), timeout = seconds(1);
  std::uint32_t failures = 3;
  friend bool operator==(const Probe&, const Probe&) = default;
};

struct Mount {
  std::string source, target;
  bool read_only = false;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct Container {
  std::string image;  // "" = run on the node itself
  std::vector<Mount> mounts;
  std::string work_dir;
  friend bool operator==(const Container&, const Container&) = default;
};

// A role: a Slurm het component, a Kubernetes replica set, one side of a leader/worker pair.
//
// How much a group needs on a node that runs t of its tasks: per_task × t + per_node, and per_job devices spread over
// all its nodes. Whatever is 0 is not asked for; cores are at least one per node.
struct GroupSpec {
  std::string name;
  CountRange tasks{1, 1};            // min < max: elastic. max = UINT32_MAX with kTasks: as many as nodes (daemons)
  CountRange nodes{0, 0};            // 0 = the planner's choice
  std::uint32_t tasks_per_node = 0;  // 0 = no cap; with tasks_per_node_exact, exactly this many
  bool tasks_per_node_exact = false;
  Resources per_task;
  Resources per_node;
  std::vector<DeviceAsk> per_job;
  std::int64_t memory_per_core_mb = 0;
  std::int64_t memory_per_device_mb = 0;
  std::uint32_t cores_per_device = 0;
  bool all_memory = false;  // Slurm's --mem=0: the node's whole memory
  bool overcommit = false;  // tasks do not each need a core
  Sharing sharing = Sharing::kShared;
  bool all_cores = false;                  // with kExclusive: hold every core and device of the node
  std::string constraint;                  // feature expression: "a&b", "a|b", "[x|y]" as Slurm writes it
  std::vector<std::string> only_nodes;     // -w: all of these must be among the nodes
  std::vector<std::string> exclude_nodes;  // -x
  std::uint32_t contiguous_cores_min = 0;  // --mincpus: cores a chosen node must at least grant
  std::int64_t tmp_disk_mb = 0;
  std::string topology_level;      // domain level that must ("!leaf") or should ("leaf") hold the whole group
  std::uint32_t switches_max = 0;  // --switches: on nodes of at most so many innermost domains; 0 = no bound
  Duration switches_wait;          // such a place is waited for at most this long; kForever = always
  std::uint32_t segment = 0;       // --segment: nodes come in blocks of so many, each within one innermost domain

  Launch launch = Launch::kNothing;
  std::vector<std::string> argv;                         // kTasks: what each task runs; kScript: the script's arguments
  std::vector<std::pair<std::string, std::string>> env;  // added to the job's environment
  Container container;
  RestartRule restart = RestartRule::kNever;
  std::uint32_t restarts_max = 0;         // per task; 0 with kAlways = no bound
  bool one_failure_restarts_all = false;  // a lost member restarts the whole attempt (gangs), not one task
  bool endless = false;                   // has no end of its own: services
  std::vector<Port> ports;
  std::vector<Probe> probes;
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

struct Dependency {
  enum class Type : unsigned char {
    kAfter,
    kAfterAny,
    kAfterOk,
    kAfterNotOk,
    kAfterCorr,
    kSingleton
  } type = Type::kAfterAny;
  JobId job;                             // 0 for kSingleton
  Duration delay;                        // kAfter: this long after the start
  std::optional<std::uint32_t> element;  // of the array `job`; unset = all of it
  bool failed = false;  // accounting says how `job`, which is listed no more, ended: this can never hold
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

struct SignalAhead {        // --signal: sent this long before the time limit
  std::int32_t signal = 0;  // 0 = none
  Duration ahead;
  bool script_only = false;  // "B:"
  friend bool operator==(const SignalAhead&, const SignalAhead&) = default;
};

// What was asked for. Shared by every version of the job's record.
struct JobSpec {
  std::string name;
  SharedText front_end = "lockstep";  // who speaks for it: "slurm", "kubernetes", "skypilot"
  UserId user;
  SharedText account, qos, reservation, licenses, comment, wckey;
  SharedList<std::string> partitions;  // alternatives; empty = the default one
  SharedList<GroupSpec> groups;        // at least one; several start together (het jobs)

  Duration time_limit;  // 0 = the partition's default; kForever = none
  Duration time_min;    // 0 = not flexible
  WallTime begin;       // 0 = now
  WallTime deadline;    // 0 = none
  SharedList<Dependency> dependencies;
  bool dependency_any = false;  // '?': one satisfied is enough
  bool kill_on_invalid_dependency = true;
  bool hold = false;
  std::int32_t nice = 0;
  std::optional<std::uint32_t> priority;  // fixed by an administrator
  bool requeue = true;                    // may be started again after a node's loss
  bool requeue_set = false;               // the user said so
  bool survive_node_loss = false;         // --no-kill
  SignalAhead signal_ahead;
  Duration kill_wait = seconds(30);    // from SIGTERM to SIGKILL
  std::int32_t checkpoint_signal = 0;  // told before it is preempted or moved, so that it saves its work; 0 = cannot

  SharedText script;       // blob; kScript
  SharedText environment;  // blob: NUL-separated NAME=value
  SharedText work_dir;
  SharedText std_in, std_out, std_err;  // file patterns (%j …); "" = the default; std_err "" = joins std_out
  bool append = false;                  // --open-mode=append
  std::int32_t umask = 022;
  SharedText submit_host;
  SharedText command;        // what users see as Command=: path of the script or the program
  bool interactive = false;  // bound to a client: ends when it is gone
  SharedList<std::pair<std::string, std::string>>
      options;  // front end's own words, sorted, verbatim ("gpus-per-node","h100:8")
  SharedList<std::pair<std::string, std::string>> labels;
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// Where a part of spec equals that of the other one, both share it from now on.
void share_parts(JobSpec& spec, const JobSpec& other);

// PENDING ──start──▶ STARTING ──first member runs──▶ RUNNING ──end──▶ COMPLETING ──all members stopped──▶ a final state
//    ▲                                                                     │
//    └──────────────────────── requeue (next attempt) ◀────────────────────┘
// PENDING may also go straight to CANCELLED, DEADLINE or (dependency) FAILED. SUSPENDED swaps with RUNNING.
enum class JobState : unsigned char {
  kPending,
  kStarting,
  kRunning,
  kSuspended,
  kCompleting,
  kCompleted,
  kFailed,
  kCancelled,
  kTimeout,
  kNodeFail,
  kPreempted,
  kOutOfMemory,
  kDeadline,
  kBootFail,
};
bool is_final(JobState state);
bool holds_allocation(JobState state);  // kStarting … kCompleting
bool legal_transition(JobState from, JobState to);

// Why a pending job does not start, as far as the core itself knows. The planner's reasons are PlanNotes.
enum class Hold : unsigned char {
  kNone,
  kUser,
  kAdmin,
  kRequeueLimit,
  kDependency,
  kDependencyNever,
  kBeginTime,
  kArrayThrottle,
  kLaunchFailed,
};

// What Slurm shows as the signal of a task whose input or output file could not be opened.
inline constexpr std::int32_t kNotOpenedSignal = 53;

struct ExitStatus {
  std::int32_t code = 0;    // 0–255
  std::int32_t signal = 0;  // the signal that ended it, or 0
  bool oom = false;
  bool not_opened = false;  // no program ran, and no signal came: `signal` is kNotOpenedSignal for those who read it
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
  bool ok() const { return code == 0 && signal == 0 && !oom; }
};

// The flags of a task's end in one byte, as shims tell it: 1 = oom, 2 = not_opened.
inline std::uint8_t exit_flags(const ExitStatus& exit) {
  return static_cast<std::uint8_t>((exit.oom ? 1 : 0) | (exit.not_opened ? 2 : 0));
}
inline ExitStatus exit_status(std::int32_t code, std::int32_t signal, std::uint64_t flags) {
  return {code, signal, (flags & 1) != 0, (flags & 2) != 0};
}

// assigned ──▶ running ──▶ stopped. Stopped needs proof: the agent's word, a new boot id, or a fence. Running swaps
// with paused, which the agent says too: its processes have been stopped and let go on by signals.
enum class MemberState : unsigned char { kAssigned, kRunning, kStopped, kPaused };

// What one attempt holds. Grants are in rank order: the batch script runs on grants[0].
struct Allocation {
  AttemptNo attempt = 0;
  std::string partition;
  Duration
      fence_after;  // the agent stops the attempt by itself this long after losing the controller; kForever = never
  std::vector<Grant> grants;
  Tres tres;        // what the grants count for against limits
  Instant granted;  // since when: the start, or the last time an elastic group grew or shrank
  Duration limit;   // the time limit as it stood then; kForever = none
};

// Where and when a waiting job will start, bindingly: nothing lower may delay it. Made from limits, never from
// predictions.
struct Promise {
  Instant at;
  std::string partition;
  std::vector<Grant> grants;
  bool held = false;  // freed for it by preemption: nobody else may take it, not even for a moment
  friend bool operator==(const Promise&, const Promise&) = default;
};

// A running job that has to go for another one.
struct Eviction {
  JobId by;                                  // whom it makes room for; 0: nobody, it is suspended and waits for room
  PreemptMode mode = PreemptMode::kRequeue;  // never kCluster, kOff or kGang
  Instant at;                                // when its grace is over
  std::vector<NodeId> nodes;                 // an elastic job gives up what it has there and stays; empty: all of it
  friend bool operator==(const Eviction&, const Eviction&) = default;
};

// The waiting part of a job array. The record stays with the id users know; an element gets an id and a record of its
// own when it starts or diverges.
struct ArrayState {
  IntervalSet asked;           // every index of the submission
  IntervalSet waiting;         // indices without a record of their own; includes cancelled ones until they are dropped
  std::uint32_t throttle = 0;  // %k: how many may run at once; 0 = no bound
  std::uint32_t running = 0;   // elements that hold an allocation
  std::uint32_t unfinished = 0;  // elements with a record that have not ended
  std::uint32_t worst_code = 0;  // highest exit code of ended elements
  std::uint32_t step = 1;        // of the a-b:s that was written
  bool cut_short = false;        // some of it left while it waited, without a record that would tell of it
};

struct StepSpec;

struct Job {
  Meta meta;
  JobId id;
  Ref<JobSpec> spec;
  JobState state = JobState::kPending;
  Hold hold = Hold::kNone;
  std::uint64_t priority = 0;  // higher first
  AttemptNo attempt = 0;
  std::uint32_t restarts = 0;     // requeues so far: SLURM_RESTART_COUNT
  std::uint32_t preemptions = 0;  // how many of its attempts were preempted

  Instant submitted, eligible, started, ended;
  Instant limit_end;    // when the time limit strikes; kNever without a limit
  Instant begin_after;  // requeue delay: not before this
  Instant confirm_by;   // when the nodes must have confirmed the last order to start, stop or pause; 0 = nobody asks
  bool warned = false;  // signal_ahead has been sent
  bool hangs = false;  // a node does not confirm that it has stopped, and was opened all the same: it stays where it is

  Ref<Allocation> allocation;        // set exactly while holds_allocation(state)
  std::vector<MemberState> members;  // one per grant

  JobState ending = JobState::kCompleted;  // while kCompleting: the state to come
  bool requeue_after = false;              // while kCompleting: goes back to kPending instead
  ExitStatus exit;                         // of the batch script, or of the interactive client's choosing
  ExitStatus derived_exit;                 // highest of its steps
  SharedText ran_on;                       // once ended: host list of the last attempt
  SharedText end_reason;                   // "NonZeroExitCode", "TimeLimit", "NodeDown n3", …
  UserId cancelled_by;                     // with kCancelled
  StepNo next_step = 0;
  Ref<StepSpec> first_step;  // launched with the start: srun outside an allocation

  Instant turn;               // its place among equals (rules/order.h); 0 = the moment of its submission
  Duration predicted;         // how long it will probably run; 0 = not known
  Ref<Promise> promise;       // while it waits
  Ref<Eviction> eviction;     // from the decision until the attempt has ended
  Instant checkpointed;       // the attempt's last saved state; 0 = none
  Instant suspended_at;       // while kSuspended
  Duration suspended_before;  // of the attempt: pauses that are over
  std::uint32_t pauses = 0;   // of the attempt: how often it was told to pause or to go on

  Ref<ArrayState> array;  // set on the array's own record only
  JobId array_job;        // of an element: the array's id
  std::uint32_t array_index = 0;
};

// Whether an array's own record tells something that its elements do not: some of it waits, or was cut off as it waited
// and the array ended so.
bool array_tells(const Job& array);

}  // namespace lockstep
