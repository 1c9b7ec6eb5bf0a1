// The other records: cluster, users, partitions, nodes, tokens, steps, tasks, front-end objects.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/accounting.h"
#include "model/exit_status.h"
#include "model/health.h"
#include "model/job_state.h"
#include "model/keys.h"
#include "model/node.h"
#include "model/reservation.h"
#include "model/step.h"

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
  bool up = true;          // jobs start
  bool closed = false;     // it takes no new jobs; those that wait start while it is up
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
// A certificate whose holder has not said hello yet. From then on the node's record knows it.
struct IssuedCertificate {
  std::string node, certificate;  // name, serial
  Instant until;                  // later it counts no more
  std::string task_range;         // that its holder was given; "" = none
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
  bool replace = false;               // also names of nodes that are up or have work
  bool trust_administrators = false;  // Node::trust_administrators of who joins by it
  std::vector<IssuedCertificate> issued;
  std::string address;     // NodeTerms::address of who joins by it, where that is one node
  std::string task_range;  // likewise; where it may be used more than once, each gets a /24 of it
};

// A record that an object shows as part of itself: the entry that changes or removes it advances the object's seq, too.
struct Shown {
  Kind kind = Kind::kJob;  // or kTask, kNode
  JobId job;               // kJob, kTask
  std::uint16_t group = 0;
  std::uint32_t index = 0;  // kTask
  NodeId node;              // kNode
  friend auto operator<=>(const Shown&, const Shown&) = default;
};

// How work ended that an object shows. The records themselves are forgotten minutes later.
struct EndedWork {
  Shown what;
  AttemptNo attempt = 0;
  std::uint32_t incarnation = 0, restarts = 0;  // kTask
  JobState state = JobState::kCompleted;        // of a task by its exit status
  Instant started, ended;                       // started 0: it never ran
  ExitStatus exit;
  SharedText ran_on;  // host list
  friend bool operator==(const EndedWork&, const EndedWork&) = default;
};

// What a front end stores beside the jobs it made: a Kubernetes object, a SkyPilot service. Opaque to the core, in the
// same history, owned and watched like everything else.
struct Object {
  Meta meta;
  std::string type;              // "apps/v1/Deployment"
  SharedText body;               // the front end's own text; versions that differ in what they show share it
  std::vector<Shown> shows;      // ascending, each once
  std::vector<EndedWork> ended;  // of what it shows, in that order
};

}  // namespace lockstep
