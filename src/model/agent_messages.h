// The words between controller and agent. Every message about work carries (job, attempt), so late and doubled ones
// are harmless. Reports are numbered by the agent and repeated until acknowledged.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "model/action.h"
#include "model/command.h"
#include "model/spec.h"

namespace lockstep {

inline constexpr std::uint32_t kProtocolMin = 1;
inline constexpr std::uint32_t kProtocolMax = 1;

// How one kind of process is started. Text that differs by task holds placeholders, each a \x01 and a letter:
//   \x01t global rank   \x01l rank on the node   \x01n index of the node in the step   \x01N host name   \x01p pid
// Digits between the two ask for leading zeros: \x01 4 t with rank 7 is "0007".
struct ProcessSpec {
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
  std::vector<std::string> argv;  // argv[0] is looked up in the job's PATH when it has no slash
  std::vector<std::string> env;   // NAME=value, complete but for env_base
  BlobId env_base;  // more of it, which the agent has been sent before (wire/long_environment.h); env counts. "" = none
  std::vector<std::string> task_env;  // NAME=value with placeholders, per task, after env
  std::string work_dir;
  std::string std_in, std_out,
      std_err;  // paths with placeholders; "" = to the client (steps) or /dev/null; std_err "" with std_out set: joined
  bool append = false;
  std::int32_t umask = 022;
  Container container;  // to run in; none: on the node itself
  // Programs that run as the user before each task, and may change what it finds, and after it.
  std::vector<std::string> task_prologs, task_epilogs;
};

// Ranks of a step by its nodes: what tasks that find each other by a process management interface are told.
struct WorldNode {
  std::string name;
  std::vector<std::uint32_t> ranks;
  friend bool operator==(const WorldNode&, const WorldNode&) = default;
};

struct LaunchAttempt {  // StartAttempt with its details
  JobId job;
  AttemptNo attempt = 0;
  std::string job_name;
  Duration fence_after, kill_wait;
  CoreSet cores;
  DeviceSet devices;
  std::vector<DevicePart> parts;  // of devices that it shares with others; sorted
  std::int64_t memory_mb = 0;
  std::int64_t scratch_mb = 0;                   // of local disk that it asked for; 0 = no bound
  std::string user_name, user_home, user_shell;  // of process.uid, for a node that does not know it
  bool has_script = false;
  std::string script;                           // its text; the agent writes it to a file and runs it
  ProcessSpec process;                          // of the script; uid, gid, groups of everything on this node
  std::vector<StagedPath> stage_in, stage_out;  // copied as the user, before anything of it and behind all of it
  bool script_waits = false;                    // the script does not start yet: others stage in. StagedIn answers
  std::string checkpoint_file;                  // on the node that is to look at it
  std::string checkpoint_line;
};

// Processes of one part of a job on one node, which start and end together.
struct TaskProcesses {
  std::uint32_t node_index = 0;      // of this node in the step
  std::vector<std::uint32_t> ranks;  // global ranks on this node; local rank = position
  ProcessSpec process;
  std::vector<std::vector<std::string>> argv_by_rank;  // multi-prog; as long as ranks, or empty
  std::vector<std::vector<std::string>>
      env_by_rank;        // extra NAME=value per task (its GPUs); as long as ranks, or empty
  bool to_client = true;  // output without a path waits for a client
  bool pty = false;
  std::uint16_t rows = 0, columns = 0;
  CoreSet cores;
  DeviceSet devices;
  std::int64_t memory_mb = 0;          // of this part; 0 = what the attempt has
  std::vector<CoreSet> cores_by_rank;  // of `cores`, where tasks are bound; as long as ranks, or empty
  std::string memory_bind;             // as --mem-bind says; "" = memory comes from anywhere
  Pmi pmi = Pmi::kNone;
  std::vector<WorldNode> world;  // with pmi: all nodes of the step
  std::string world_secret;      // likewise: known to them and the step's user alone
  Duration kill_wait = seconds(30);
};

struct LaunchStep : TaskProcesses {
  using Bases = std::tuple<TaskProcesses>;  // for the list of fields
  JobId job;
  AttemptNo attempt = 0;
  StepNo step = 0;
};

struct LaunchTask {
  JobId job;
  AttemptNo attempt = 0;
  TaskPart task;
  ProcessSpec process;
  CoreSet cores;
  DeviceSet devices;
  Sandbox sandbox;        // where it has one: its containers begin with what `process` has
  std::string host_name;  // inside the sandbox
};

// What is told in the output of what is stopped, as far as it is worth telling. Shims are told the number: it stays.
enum class StopWhy : unsigned char { kNothing, kCancelled, kTimeLimit, kPreempted, kNodeFail, kRequeued, kFailed };

struct StopWork {
  JobId job;
  AttemptNo attempt = 0;
  std::optional<WorkPart> part;  // a step or a task; nothing: the whole attempt
  Duration kill_wait;
  StopWhy why = StopWhy::kNothing;
};

struct SignalWork {
  JobId job;
  AttemptNo attempt = 0;
  std::optional<WorkPart> part;             // every process of it; nothing: what `reach` says
  SignalReach reach = SignalReach::kSteps;  // kScript: the shell is meant, not what it has started
  std::int32_t signal = 0;
  StopWhy why = StopWhy::kNothing;  // it warns of an end for this reason, and is told beside the signal
  Duration stops_in = {};           // who still runs then is killed
};

// All processes of the attempt here stop where they are, or go on; meanwhile nothing of it starts. Answered by
// MemberPaused. An order with a lower number than the last one is late and means nothing.
struct PauseWork {
  JobId job;
  AttemptNo attempt = 0;
  bool paused = true;
  std::uint32_t number = 0;
};

// First message of the agent on a new connection.
struct Hello {
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
  Node facts;  // name, boot id, cores, devices …
  std::vector<Holding> holdings;
  std::uint16_t peer_port = 0;  // where other agents reach this one, at facts.address; 0 = they cannot
  JobId highest_job;            // that ever came here; none below is new
};
struct Renew {
  std::int64_t sent_boot_us = 0;  // agent's boot-time clock when sent
  std::vector<Holding> holdings;
};
struct Report {
  std::uint64_t number = 0;  // of this boot; acknowledged once its covering entry is durable
  JobId job;
  AttemptNo attempt = 0;
  ReportBody body;
  std::int64_t made_boot_us = 0;  // agent's boot-time clock when it came to know
  Duration ago;                   // the same, as of the sending
};

// What a node measures, for people to look at: not numbered, not repeated, not logged.
struct DeviceSample {
  std::uint16_t device = 0;        // index on its node
  std::uint32_t busy_percent = 0;  // of the time since the last sample in which a kernel ran
  std::int64_t memory_mb = 0;      // that is taken
  std::uint32_t watts = 0, celsius = 0;
  friend bool operator==(const DeviceSample&, const DeviceSample&) = default;
};
struct WorkSample {  // of a part that runs, up to now
  JobId job;
  AttemptNo attempt = 0;
  WorkPart part;
  WorkUse use;
};
struct ContainerSample {  // of a container that runs, up to now
  JobId job;
  AttemptNo attempt = 0;
  WorkPart part;
  std::string container;
  Duration cpu;             // of this life of it, over all processors
  std::int64_t memory = 0;  // bytes that it holds, without files that the kernel could drop at once
  std::int64_t disk = -1;   // bytes of the node's disk; -1 = not looked at
};
struct StagingSample {  // of what is being copied
  JobId job;
  AttemptNo attempt = 0;
  bool out = false;
  std::int64_t bytes_done = 0, bytes_total = 0;
  std::int64_t files_done = 0, files_total = 0;
  friend bool operator==(const StagingSample&, const StagingSample&) = default;
};
struct Telemetry {
  std::uint32_t load_percent = 0;   // processes that ran or wanted to over the last minute; 100 is one
  std::int64_t memory_free_mb = 0;  // of the machine
  std::vector<DeviceSample> devices;
  std::vector<WorkSample> work;
  std::vector<StagingSample> staging = {};
  std::int64_t seen_boot_us =
      0;              // agent's boot-time clock when it looked; told again, it is the same look. 0 = not told
  Duration cpu = {};  // in which processors of the machine worked, since its boot
  std::int64_t memory_used_mb = 0;  // of the machine, without files that the kernel could drop at once
  std::vector<ContainerSample> containers = {};
};
using FromAgent = std::variant<Hello, Renew, Report, Telemetry>;

struct Welcome {
  std::uint32_t protocol = kProtocolMax;
  NodeId node;
  Duration renew_every;  // a third of the lease term
  std::string cluster;
  std::string ticket_key;   // this node's own: verifies the tickets of those who attach to steps here
  std::int64_t now_us = 0;  // cluster time: tickets expire by it
};
struct Refused {
  std::string why;
};  // wrong version, unknown node, clock: the agent says so and retries slowly
struct RenewAck {
  std::int64_t sent_boot_us = 0;
  std::int64_t wall_us = 0;  // the controller's clock as it answered, since the epoch; 0 = not told
};                           // echoes Renew; extends every fence from that moment
struct ReportAck {
  std::vector<std::uint64_t> numbers;
};
// To every agent when a node's certificate stops to count: connections of its holder are closed, and tickets signed
// before are void.
struct Revoked {
  std::string node;
  std::string certificate;  // serial of the only one that counts; "" = none
  std::string ticket_key;   // as in Welcome
  std::int64_t now_us = 0;
};
// Where the addresses of other nodes' tasks are reached. Nodes that are not named keep the route that was told before.
struct TaskRoute {
  std::string range;  // "10.77.128.0/25"
  std::string via;    // address of its node; "" = nobody has the range any more
  friend bool operator==(const TaskRoute&, const TaskRoute&) = default;
};
struct TaskRoutes {
  bool all = false;  // what is not named is gone
  std::vector<TaskRoute> routes;
};
using ToAgent = std::variant<Welcome, Refused, RenewAck, ReportAck, LaunchAttempt, LaunchStep, LaunchTask, StopWork,
                             SignalWork, PauseWork, Revoked, TaskRoutes>;

}  // namespace lockstep
