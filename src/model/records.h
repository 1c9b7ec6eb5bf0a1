// The other records: cluster, users, partitions, nodes, tokens, steps, tasks, front-end objects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/accounting.h"
#include "model/job.h"
#include "model/reservation.h"

namespace lockstep {

// One per cluster: its name, and the counters that must never go back.
struct Cluster {
  Meta meta;
  std::string name;
  std::uint64_t next_job = 1;
  std::uint32_t next_node = 1;
  std::uint32_t next_user = 1;
  Duration wall_offset;     // wall clock minus cluster time, as last noticed
  Instant clock;            // cluster time of the last entry: the floor after a restart
  std::uint64_t epoch = 0;  // counts controller starts
  // Of the last start: the last entry before it, and when it was. Nobody heard anything in between.
  Instant away_since, back_at;
};

struct User {
  Meta meta;  // meta.name is the login name
  UserId id;
  std::string realm = "local";  // user database the uid belongs to
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
  std::string home, shell;
  std::string account;  // default account
  bool admin = false;   // administrator of the cluster; root on a node is not one by that alone
};

struct Partition {
  Meta meta;                       // meta.name
  std::vector<std::string> nodes;  // host names; {"ALL"} = every node
  bool is_default = false;
  bool up = true;
  std::uint32_t tier = 1;  // higher goes first
  std::uint32_t priority = 0;
  Duration time_default;  // 0 = time_max
  Duration time_max = kForever;
  std::uint32_t nodes_max = 0;                       // 0 = no bound
  std::int64_t memory_per_core_mb = 0;               // default when a job names no memory; 0 = none charged
  std::vector<std::string> allow_accounts;           // empty = all
  std::vector<std::string> deny_accounts;            // where allow_accounts is empty
  std::vector<std::string> allow_qos;                // empty = all
  std::vector<std::string> deny_qos;                 // where allow_qos is empty
  std::string qos;                                   // its limits bind every job here (partition QOS)
  std::vector<TresWeight> billing;                   // what amounts are billed; empty = a core counts 1
  PreemptMode preempt_mode = PreemptMode::kCluster;  // of jobs that run here, where their QOS says nothing
  Duration grace;                                    // the same
  std::uint32_t segment = 0;                         // default of GroupSpec::segment; 0 = none
};

// The tree of the network, or of anything else that makes nodes near each other. One record, named "topology". Nodes
// it does not name keep the path their agent was set up with.
struct TopologyLeaf {
  std::vector<std::string> path;   // outermost first, one name per level: {"spine0","leaf3"}
  std::vector<std::string> nodes;  // host names
  friend bool operator==(const TopologyLeaf&, const TopologyLeaf&) = default;
};
struct Topology {
  Meta meta;
  std::vector<std::string> levels;  // outermost first: {"spine","leaf"}
  std::vector<TopologyLeaf> leaves;
  bool blocks = false;  // innermost domains are NVLink blocks: a job of one segment never leaves one (topology/block)
};

// What packing has learnt (sched/packing.h): which requests come, how often, and what each costs the others. One
// record, named "packing"; the planner proposes it, and goes by nothing but what was committed.
struct PackingClass {
  std::int64_t cpu_milli = 0;
  std::uint8_t devices = 0;         // 0: none. Of more than one all are whole
  std::uint16_t milli = 0;          // of each device, 1 to 1000
  std::vector<std::string> models;  // that will do, sorted; empty: any
  std::int64_t weight = 0;          // arrivals in 2^-20, older ones counting less
  std::int64_t price = 0;           // milli-GPU of average demand in 2^-20
  friend bool operator==(const PackingClass&, const PackingClass&) = default;
};
struct Packing {
  Meta meta;
  JobId through;  // the last job whose arrival is counted
  std::uint64_t arrivals = 0, steps = 0;
  std::vector<PackingClass> classes;
};

// Whether a node can take work is derived from these; there is one place (node_usable) that decides.
// unknown: not heard in this epoch of the controller. away: its agent's connection broke, and no new one has come yet.
// lost: no renewal for the node timeout.
enum class NodeLink : unsigned char { kUnknown, kUp, kLost, kAway };

// A job that the node, though it is heard, does not confirm to have stopped or to pause as it was told to.
struct Unconfirmed {
  JobId job;
  std::uint32_t pauses = 0;  // Job::pauses of the order to pause; 0: it was told to stop
  Instant since;
  bool forgiven = false;  // an administrator has opened the node all the same
  friend bool operator==(const Unconfirmed&, const Unconfirmed&) = default;
};

struct Node {
  Meta meta;  // meta.name is the node name
  NodeId id;
  std::string address;  // where its tasks are reached: "10.77.3.2"
  std::string hostname;
  std::string boot_id;  // of the machine; a new one proves that everything before is gone
  std::string version;  // of the agent
  std::uint32_t sockets = 1, cores = 1, threads_per_core = 1;
  std::int64_t memory_mb = 0, tmp_disk_mb = 0;
  std::vector<Device> devices;
  std::vector<Counted> counted;  // sorted by name
  std::vector<std::string> features;
  std::vector<std::string> domains;  // topology path, outermost first: {"block1","leaf3"}
  std::uint32_t weight = 1;          // lighter nodes are taken first
  NodeLink link = NodeLink::kUnknown;
  bool drain = false;                    // takes no new work, as an administrator decided
  bool unfit = false;                    // nor does it as its agent says, while it says so
  std::vector<Unconfirmed> unconfirmed;  // nor while one of these is not forgiven; sorted by job
  std::string reason;                    // why it is drained or down, as somebody said: see reason_of()
  UserId reason_by;
  Instant reason_at, boot_at, seen_at;  // seen_at: last hello, break of the connection, or loss
  bool has_fence_hook = false;          // someone can prove it stopped (virtual, cloud, power)
  std::string certificate;              // serial of the only one that counts; "" = the first that comes is kept
  bool replaced = false;                // the name was given to another machine: a new boot id proves nothing
  bool trust_administrators = false;    // who is root or administrator there is so for the cluster
};
inline constexpr std::size_t kUnconfirmedMax = 64;        // of a node: one is enough to keep it closed
inline constexpr const char* kNoCertificate = "revoked";  // Node::certificate: none counts
bool node_drained(const Node& node);
bool node_usable(const Node& node);  // link up and not drained

// What is said of it, and what it does not confirm.
struct NodeReason {
  std::string words;  // empty: nothing
  UserId by;          // 0: itself, or the core
  Instant at;
};
NodeReason reason_of(const Node& node);

// A certificate whose holder has not said hello yet. From then on the node's record knows it.
struct IssuedCertificate {
  std::string node, certificate;  // name, serial
  Instant until;                  // later it counts no more
  friend bool operator==(const IssuedCertificate&, const IssuedCertificate&) = default;
};

inline constexpr std::uint32_t kTokenUsesMax = 1000;       // of one join token
inline constexpr Duration kTokenLifeMax = hours(24 * 30);  // likewise
inline constexpr std::size_t kTokensMax = 10'000;          // at any time

// A right to join, for one machine unless it says otherwise. Only a hash of the secret is stored.
struct JoinToken {
  Meta meta;  // meta.name: public id of the token
  std::string secret_sha256;
  enum class Role : unsigned char { kCompute, kBroker } role = Role::kCompute;
  std::string realm;  // kBroker
  std::string node;   // host list of the names it may give; "" = any that nobody has
  Instant expires;
  bool used = false;  // no use is left
  std::uint32_t uses_left = 1;
  bool replace = false;               // also names of nodes that are up or hold work
  bool trust_administrators = false;  // Node::trust_administrators of who joins by it
  std::vector<IssuedCertificate> issued;
};

// One launch inside an allocation.
//
// PENDING (allocation busy) ──▶ STARTING ──▶ RUNNING ──▶ ENDED
enum class StepState : unsigned char { kPending, kStarting, kRunning, kEnded };

struct StepSpec {
  std::string name;
  std::vector<std::string> argv;
  BlobId environment;  // what the launcher's client had; "" = the job's
  std::string work_dir;
  std::string std_in, std_out, std_err;  // patterns; "" = to the client
  bool append = false;
  CountRange nodes{0, 0};   // 0 = all of the allocation, or as tasks need
  std::uint32_t tasks = 0;  // 0 = as the allocation planned
  std::uint32_t tasks_per_node = 0;
  std::uint32_t cores_per_task = 0;  // 0 = the allocation's
  std::vector<DeviceAsk> devices_per_node, devices_per_task;
  std::uint32_t devices_total = 0;
  std::int64_t memory_mb = -1;  // per node; -1 = what the allocation has
  std::vector<std::string> only_nodes, exclude_nodes;
  std::uint32_t relative = 0;  // -r
  bool overlap = false;        // shares with other steps
  bool exact = false;          // takes only what it asks for
  bool overcommit = false;
  bool whole = false;        // takes all of the allocation on its nodes (plain srun)
  bool sole = false;         // what the job was made for: it ends as this ends
  bool immediate = false;    // fail instead of waiting
  std::string distribution;  // "block" (default), "cyclic"
  std::uint16_t group = 0;   // het group
  bool pty = false;
  std::uint16_t pty_rows = 0, pty_columns = 0;
  bool label = false, unbuffered = false;
  bool kill_on_bad_exit = false;
  Duration wait_after_first;  // -W; 0 = no bound
  std::int32_t umask = 022;
  std::vector<std::vector<std::string>> multi_prog;          // by rank when not empty
  std::vector<std::pair<std::string, std::string>> options;  // front end's words, verbatim
  Container container;
};

// What a step holds on one node. Ranks on it: first_rank … first_rank + tasks - 1 with block distribution, else ranks.
struct StepPlace {
  NodeId node;
  std::uint32_t grant = 0;           // index into the allocation
  std::vector<std::uint32_t> ranks;  // global ranks, ascending
  CoreSet cores;
  DeviceSet devices;
  std::int64_t memory_mb = 0;
  friend bool operator==(const StepPlace&, const StepPlace&) = default;
};

// Every report of a node makes a new version of the step: the versions share the places, and differ by a letter.
struct Step {
  Meta meta;
  JobId job;
  StepNo number = 0;
  AttemptNo attempt = 0;
  Ref<StepSpec> spec;
  UserId user;
  StepState state = StepState::kPending;
  SharedList<StepPlace> places;      // by their grants, ascending
  std::vector<MemberState> members;  // one per place
  Instant created, started, ended;
  ExitStatus exit;  // highest over its tasks
  std::vector<std::pair<std::uint32_t, ExitStatus>>
      failures;  // rank and status of tasks that did not return 0, first 64
  bool cancelled = false;
};

// One task the cluster itself started and may replace (Launch::kTasks).
//
// WAITING ──▶ RUNNING ──▶ ENDED ──restart rule──▶ WAITING (incarnation + 1)
enum class TaskState : unsigned char { kWaiting, kRunning, kEnded };

struct Task {
  Meta meta;
  JobId job;
  std::uint16_t group = 0;
  std::uint32_t index = 0;  // within its group
  AttemptNo attempt = 0;
  std::uint32_t incarnation = 1;
  std::uint32_t grant = 0;  // index into the allocation
  TaskState state = TaskState::kWaiting;
  bool ready = false;  // readiness probe, or running without one
  std::uint32_t restarts = 0;
  Instant started, ended, retry_at;
  ExitStatus exit;
};

// What a front end stores beside the jobs it made: a Kubernetes object, a SkyPilot service. Opaque to the core, in the
// same history, owned and watched like everything else.
struct Object {
  Meta meta;
  std::string type;  // "apps/v1/Deployment"
  std::string body;  // the front end's own text
};

}  // namespace lockstep
