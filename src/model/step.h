// Step and Task: what runs inside an allocation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "base/time.h"
#include "model/allocation.h"
#include "model/exit_status.h"
#include "model/ids.h"
#include "model/keys.h"
#include "model/meta.h"
#include "model/placement.h"
#include "model/program.h"
#include "model/resources.h"
#include "model/sandbox.h"
#include "model/work_use.h"

namespace lockstep {

// One launch inside an allocation.
//
// PENDING (allocation busy) ──▶ STARTING ──▶ RUNNING ──▶ ENDED
enum class StepState : unsigned char { kPending, kStarting, kRunning, kEnded };

// The process management interface by which tasks find each other.
enum class Pmi : unsigned char { kNone, kPmi2, kPmix };

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
  Pmi pmi = Pmi::kNone;
};

// What a step uses on one node. Ranks on it: first_rank … first_rank + tasks - 1 with block distribution, else ranks.
struct StepPlace {
  NodeId node;
  std::uint32_t grant = 0;           // index into the allocation
  std::vector<std::uint32_t> ranks;  // global ranks, ascending
  CoreSet cores;
  DeviceSet devices;
  std::vector<DevicePart> slices;  // those MIG slices of the grant that it has; its other parts all steps share
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
  WorkUse use = {};  // of the parts that have ended
};

// One task the cluster itself started and may replace (Launch::kTasks).
//
// WAITING ──▶ RUNNING ──▶ ENDED ──restart rule──▶ WAITING (incarnation + 1)
enum class TaskState : unsigned char { kWaiting, kRunning, kEnded };

struct Task {
  Meta meta;
  JobId job;
  UserId user;  // whose its job is
  std::uint16_t group = 0;
  std::uint32_t index = 0;  // within its group
  AttemptNo attempt = 0;
  std::uint32_t incarnation = 1;
  std::uint32_t grant = 0;  // index into the allocation
  TaskState state = TaskState::kWaiting;
  bool ready = false;  // readiness probe, or running without one
  std::uint32_t restarts = 0;
  Instant started, ended, retry_at;
  Instant ready_at;  // since when it is ready, or is not
  ExitStatus exit;
  SharedText address;                      // of its sandbox: "10.77.128.3". Once it has ended: that it had
  SharedList<ContainerStatus> containers;  // of its sandbox, in the order of what was asked for
  SharedText reason;                       // why it could not start; "" = nothing to say
};

}  // namespace lockstep
