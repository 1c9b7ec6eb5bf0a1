// Command: one request for change, already parsed and authenticated. Answer: what its caller is told.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/interval_set.h"
#include "model/change.h"
#include "model/dependency.h"
#include "model/plan.h"
#include "model/records.h"
#include "model/work_id.h"

namespace lockstep {

struct JobSpec;

struct Caller {
  UserId user;         // 0 = the controller itself
  bool admin = false;  // the controller, or an administrator
  // Root of a compute node: reaches those of the user's jobs that this node holds, and starts none. 0 = no such bound.
  NodeId only_on = {};
};

// An if_seq of a record that must not be there yet.
inline constexpr Seq kIfNew = INT64_MAX;

// --- users' requests ---

struct ArrayAsk {
  IntervalSet indices;
  std::uint32_t throttle = 0;
  std::uint32_t step = 1;
};

struct SubmitJob {
  Ref<JobSpec> spec;
  std::optional<ArrayAsk> array;
  Ref<StepSpec> first_step;  // srun outside an allocation: launched with the start
  // Created in the same batch, owning the job, the first as its controller. Job 0 in what they show is this job.
  std::vector<Object> objects;
};

struct JobTarget {  // what users name: "12", "12_3", "12_[3-9]"
  JobId job;
  std::optional<IntervalSet> elements;
};

struct CancelJob {
  JobTarget target;
  std::int32_t signal = 0;                  // 0 = end the job; else only send this signal
  SignalReach reach = SignalReach::kSteps;  // of a signal
};
struct HoldJob {
  JobTarget target;
  bool by_admin = false;
};
struct ReleaseJob {
  JobTarget target;
};
struct RequeueJob {
  JobTarget target;
  bool hold = false;
};
struct SuspendJob {
  JobTarget target;
};
struct ResumeJob {
  JobTarget target;
};
struct MarkCheckpoint {  // the attempt's state has been saved: nothing before now would be lost
  JobId job;
};
struct UpdateJob {  // unset fields stay
  JobTarget target;
  Seq if_seq = 0;  // compare-and-set; 0 = any
  std::optional<std::string> name, account, qos, comment, reservation, constraint;
  std::optional<std::vector<std::string>> partitions, only_nodes, exclude_nodes;
  std::optional<Duration> time_limit;
  std::optional<WallTime> begin, deadline;
  std::optional<std::int32_t> nice;
  std::optional<std::uint32_t> priority, throttle;
  std::optional<CountRange> nodes, tasks;
  std::optional<std::vector<Dependency>> dependencies;
  std::optional<bool> requeue;
  std::optional<Labels> labels;
  // Of each task. Also of a job that runs, where it is one task on one node that has room (core/resize.h).
  std::optional<std::uint32_t> cores_per_task, shared_milli_per_task;
  std::optional<std::int64_t> memory_mb_per_task;
};
struct EndJob {  // an interactive client is done, or is gone
  JobId job;
  ExitStatus exit;
  bool client_lost = false;
  Duration ago = {};  // how long before it could say so; believed of the time when no controller could hear
};

struct CreateStep {
  JobId job;
  Ref<StepSpec> spec;
};
struct SignalStep {
  JobId job;
  StepNo step = 0;
  std::int32_t signal = 0;
};  // 0 = end it (TERM, then KILL)
struct SetTaskCount {
  JobId job;
  std::uint16_t group = 0;
  std::uint32_t count = 0;
};  // scale a kTasks group

struct PutUser {
  User user;
  // The realm's user database says so: an older record of the same name gives the name up, and a uid with a new name
  // is somebody new, who is no administrator by what the old one was.
  bool by_database = false;
  Seq if_seq = 0;
};  // by (realm, uid); id 0 = new
struct PutAccount {
  Account account;
  Seq if_seq = 0;  // compare-and-set; 0 = any. Likewise below
};
struct RemoveAccount {
  std::string name;
};  // with its associations
struct PutAssociation {
  Association association;
  Seq if_seq = 0;
};
struct RemoveAssociation {
  std::string name;
};  // association_name()
struct PutQos {
  Qos qos;
  Seq if_seq = 0;
};
struct RemoveQos {
  std::string name;
};
struct PutLicence {
  Licence licence;
  Seq if_seq = 0;
};
struct RemoveLicence {
  std::string name;
};
struct PutReservation {
  Reservation reservation;
  Seq if_seq = 0;
};  // without names of nodes the core chooses them
struct RemoveReservation {
  std::string name;
};
struct PutPolicy {
  Policy policy;
  Seq if_seq = 0;
};
struct ResetUsage {
  std::string account, user;
};  // "" = of all; an account with those below it
struct PutTopology {
  Topology topology;
  Seq if_seq = 0;
};  // without leaves: removed
struct PutNodeClass {
  NodeClass node_class;
  Seq if_seq = 0;
};
struct RemoveNodeClass {
  std::string name;
};
struct PutHealthCheck {
  HealthCheck check;
  Seq if_seq = 0;
};
struct RemoveHealthCheck {
  std::string name;
};
struct PutPartition {
  Partition partition;
  Seq if_seq = 0;
};
struct RemovePartition {
  std::string name;
};
struct PutObject {
  Object object;
  Seq if_seq = 0;
};
// Marks it as deleted. It goes when no finalizer is left, and the work that it shows and controls has ended; what
// depends on it is the collector's business (controller/collector.h).
struct RemoveObject {
  std::string type, ns, name;
  Seq if_seq = 0;
  // kBackground: dependents go after it; kForeground: before it, where they block it; kOrphan: they stay.
  enum class Dependents : unsigned char { kBackground, kForeground, kOrphan } dependents = Dependents::kBackground;
};
struct DisownJob {
  JobId job;
  Uid owner;
};  // the job goes on without this owner
struct PutToken {
  JoinToken token;
};
struct RedeemToken {
  std::string token, secret_sha256, node;
  Instant at;
  std::string certificate;  // serial of the one that is handed out with the answer; older ones count no more
};                          // answer: the token's role and realm
struct RenewCertificate {
  std::string node, certificate;  // name, and serial of the one that its agent shows
  std::string next;               // serial of the new one, which counts beside it until it says hello
};
struct UpdateNode {
  std::string name;
  std::optional<bool> drain;
  std::optional<std::string> reason;
  std::optional<std::uint32_t> weight;
  std::optional<std::vector<std::string>> features;
  std::optional<bool> trust_administrators;
  std::optional<Labels> labels;
  std::optional<std::vector<NodeMark>> marks;
  std::optional<std::vector<Counted>> added_counted;
  std::optional<std::string> address, task_range;  // NodeTerms
  bool accept = false;  // what it says at its next hello of features, domains and counted resources counts
  bool revoke = false;  // its certificate counts no more: the node is lost, and its link is cut
};
struct RemoveNode {
  std::string name;
};

// --- the world's reports ---

// What somebody knows of a job beyond the log, which was put back from a backup.
struct AttemptSeen {
  JobId job;
  AttemptNo attempt = 0;  // the highest it has had
  StepNo next_step = 0;   // in that attempt no step has had this number or a higher one
};

struct NodeHello {
  Node facts;
  std::string certificate;            // serial, as TLS proved it; "" = there is no TLS (simulation)
  JobId highest_job;                  // that ever came there
  std::vector<AttemptSeen> attempts;  // that it holds, where the log has not made them or their steps yet
  std::string from;                   // the address that its connection comes from; "" = there is no TLS (simulation)
};                                    // facts.meta.name names it; creates or refreshes the record
struct NodeAway {
  NodeId node;
  Instant seen_at;  // Node::seen_at after the last hello: a later one says more than this does
};                  // the connection of its agent broke: it gets no new work before its next hello
struct NodeLost {
  NodeId node;
};  // no renewal for the node timeout: it gets no new work; what runs there goes on until it is proven stopped
struct GiveUpMember {
  NodeId node;
  JobId job;
  AttemptNo attempt = 0;
};  // the node has been lost for too long: what has no fence there ends, its place stays held until the proof
struct NodeFenced {
  NodeId node;
  std::string boot_id;
  std::string proof;
};  // everything up to this boot has stopped

// Results, by rank, of the tasks of one step on one node.
struct TaskResult {
  std::uint32_t rank = 0;
  ExitStatus exit;
};

struct AttemptStarted {};
struct StagedIn {};        // what was staged in is there; the script waits until it is on the other nodes, too
struct CheckpointSeen {};  // by a file or a line of output that its user has named: the attempt's state has been saved
struct LaunchFailed {
  std::string why;
  bool node_at_fault = false;  // another node may do better, and this one takes nothing until somebody has looked
};                             // this node could not start its part
struct ScriptEnded {
  ExitStatus exit;
  bool by_itself = false;  // before the node had heard that the attempt is to stop
  WorkUse use = {};
};
struct MemberStopped {
  bool fenced = false;
  bool refused = false;      // it never ran here: an attempt of that number had been here before
  std::string trouble = {};  // why not all was staged out; "" = it was
};                           // nothing of the attempt lives here any more
struct MemberPaused {
  bool paused = true;        // false: it goes on
  std::uint32_t number = 0;  // of the order that it answers (Job::pauses)
};
struct StepStarted {
  StepNo step = 0;
};
struct StepEnded {
  StepNo step = 0;
  std::vector<TaskResult> results;
  WorkUse use = {};
};
struct TaskStarted {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
};
struct TaskReady {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
  bool ready = false;
};
// How far the containers of a task's sandbox have come; whole, each time something is otherwise.
struct TaskContainers {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
  std::string address;                      // "" = it has none of its own
  std::vector<ContainerStatus> containers;  // without times
  std::string reason;                       // why there is no sandbox
};
struct TaskEnded {
  std::uint16_t group = 0;
  std::uint32_t index = 0, incarnation = 0;
  ExitStatus exit;
  WorkUse use = {};
};
using ReportBody =
    std::variant<AttemptStarted, LaunchFailed, ScriptEnded, MemberStopped, StepStarted, StepEnded, TaskStarted,
                 TaskReady, TaskEnded, MemberPaused, TaskContainers, StagedIn, CheckpointSeen>;

struct AgentReport {  // idempotent: late and doubled ones change nothing
  NodeId node;
  std::string boot_id;
  JobId job;
  AttemptNo attempt = 0;
  ReportBody body;
  Duration ago;  // when that was: the node may have had nobody to tell
};

// --- the controller's own ---

struct ApplyPlan : Plan {
  ApplyPlan() = default;
  explicit ApplyPlan(Plan plan) : Plan(std::move(plan)) {}
  explicit ApplyPlan(std::vector<PlannedStart> only) { starts = std::move(only); }
};
// Starts the check on the node, if it is due there and the node is idle. What starts is a job like any other.
struct RunHealthCheck {
  std::string check;
  NodeId node;
};
struct Tick {};  // act on every timer that is due
struct SetWallOffset {
  Duration offset;
};
struct StartEpoch {
  std::string cluster_name;
};  // first command after every start
struct LearnAttempts {
  std::vector<AttemptSeen> attempts;
};  // accounting has seen them: the log is older

using CommandBody =
    std::variant<SubmitJob, CancelJob, HoldJob, ReleaseJob, RequeueJob, SuspendJob, ResumeJob, MarkCheckpoint,
                 UpdateJob, EndJob, CreateStep, SignalStep, SetTaskCount, PutUser, PutAccount, RemoveAccount,
                 PutAssociation, RemoveAssociation, PutQos, RemoveQos, PutLicence, RemoveLicence, PutReservation,
                 RemoveReservation, PutPolicy, ResetUsage, PutTopology, PutNodeClass, RemoveNodeClass, PutPartition,
                 RemovePartition, PutObject, RemoveObject, DisownJob, PutToken, RedeemToken, RenewCertificate,
                 UpdateNode, RemoveNode, NodeHello, NodeAway, NodeLost, GiveUpMember, NodeFenced, AgentReport,
                 ApplyPlan, Tick, SetWallOffset, StartEpoch, LearnAttempts, PutHealthCheck, RemoveHealthCheck,
                 RunHealthCheck>;

// How far a command has come that is carried out in parts, so that others get their turn in between.
struct CommandPart {
  std::uint64_t from = 0;  // array elements below this one are done
  bool found = false;      // an earlier part found something to do
};

// What the maker of a command had read. Where it is otherwise by now the command is refused, with kConflict: whoever
// decides by a reading that lags, or decides twice, does no harm.
struct Reading {
  struct Record {
    std::variant<JobId, ObjectKey> key;
    Seq seq = 0;  // of the version that was read; 0: there was none
  };
  std::vector<Record> records;
  // The object is there, and no job, task or object that names it among its owners was made, changed or removed since.
  struct Dependents {
    Uid owner;
    Seq since = 0;  // the last change that was read
  };
  std::optional<Dependents> dependents;
};

// At most so many bodies in one command: with what each writes they stay one log entry of some hundred records.
inline constexpr std::size_t kTogetherMax = 256;

struct Command {
  Caller caller;
  CommandBody body;
  CommandPart part;
  Reading read;
  std::vector<CommandBody> also;  // done behind `body`, each seeing what those before it did: all of them, or nothing
};

enum class PlanPart : unsigned char { kStart, kPromise, kPreemption, kResume, kGrowth, kPacking };

// A part of a plan that the core did not take.
struct RefusedPart {
  PlanPart part = PlanPart::kStart;
  JobId job;           // 0: of a packing
  std::string reason;  // one word: "NodeNotUp"; kJobChanged: it is not the job any more that was planned
  std::string detail;  // which: a node, a limit
  Wait wait = Wait::kNone;
};
inline constexpr const char* kJobChanged = "JobChanged";

struct Answer {
  JobId job;                                         // SubmitJob
  StepNo step = -100;                                // CreateStep
  UserId user;                                       // PutUser
  NodeId node;                                       // NodeHello
  Seq seq = 0;                                       // of the record written
  JoinToken::Role role = JoinToken::Role::kCompute;  // RedeemToken
  std::string realm;
  std::string address, task_range;   // likewise: NodeTerms
  std::uint32_t starts_applied = 0;  // ApplyPlan
  std::vector<RefusedPart> refused;  // likewise
  std::vector<Answer> also;          // of Command::also, in its order
};

}  // namespace lockstep
