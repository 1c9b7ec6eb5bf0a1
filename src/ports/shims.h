// Shims: starts and reaches the processes that own a step's tasks on this node. A shim outlives the agent; after a
// restart the agent finds every shim again by its directory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/agent_messages.h"

namespace lockstep {

// A GPU of the node, at its place in the node's list.
struct ShimDevice {
  std::uint32_t minor = 0;  // /dev/nvidia<minor>
  bool given = true;        // to the job
};

struct ShimStart {
  WorkId key;
  TaskProcesses launch;             // a script or a task is one rank
  std::string script;               // its process.argv are the script's arguments only
  Duration fence_after = kForever;  // the shim ends by itself when no agent renewed for this long
  bool no_new_privs = false;        // setuid programs give the tasks nothing
  std::int64_t memory_mb = 0;       // of the job on this node; 0 = no bound
  std::string cores;                // of the job on this node: "0-3,8"; "" = no bound
  std::vector<ShimDevice> gpus;     // all of the node's
  // On a node with MIG slices: minors of the capabilities that the job has (/dev/nvidia-caps/nvidia-cap<minor>), and no
  // others.
  std::optional<std::vector<std::uint32_t>> capabilities;
  std::string note;  // a line that the first task finds in its error output
  // Filled by those who make control groups: each task writes "0" to these files before it is its user's; where the
  // kernel counts what it killed for want of memory, and where all of the part can be stood still.
  std::vector<std::string> enter;
  std::string oom_file, freeze_file;
  Sandbox sandbox;     // of a task that has one: its containers are what runs
  SandboxPlace place;  // with a sandbox
  // By what its tasks tell of checkpoints: a file that is touched, and how a line of output begins. "" = not.
  std::string checkpoint_file, checkpoint_line;
};

struct ShimEvent {
  enum class What : unsigned char {
    kStarted,
    kFailed,
    kEnded,
    kPaused,
    kResumed,
    kContainers,
    kCheckpoint,  // one was seen, or several within a few seconds
  } what = What::kStarted;
  WorkId key;
  std::string why;                          // kFailed
  std::vector<TaskResult> results;          // kEnded, by rank
  std::uint32_t number = 0;                 // kPaused, kResumed: of the order that this answers
  Instant at;                               // boot clock: when it happened, by the shim's word; 0 = just now
  WorkUse use = {};                         // kEnded
  std::string address;                      // kContainers: of the sandbox; "" = the node's
  std::vector<ContainerStatus> containers;  // kContainers
};

class Shims {
 public:
  virtual ~Shims() = default;
  virtual void on_event(std::function<void(ShimEvent)> callback) = 0;
  virtual void start(ShimStart start) = 0;  // answers by event; a second start of a key is ignored
  // To every process of every task, or to the first process of each alone.
  enum class Reach : unsigned char { kAll, kFirst };
  virtual void signal(const WorkId& key, std::int32_t signal, Reach reach = Reach::kAll) = 0;
  // Every process stops where it is (kPaused follows when none can run any more), or goes on (kResumed).
  virtual void pause(const WorkId& key, bool paused, std::uint32_t number) = 0;
  // CONT+TERM, then KILL; without a wait only that, so that nothing paused goes on. Ends in kEnded. `why` is told in
  // the output.
  virtual void stop(const WorkId& key, Duration kill_wait, StopWhy why = StopWhy::kNothing) = 0;
  // Writes down for its tasks that they will be killed in that time, and why; nothing else happens.
  virtual void notice(const WorkId& key, Duration killed_in, StopWhy why) = 0;
  virtual void forget(const WorkId& key) = 0;  // the result is acknowledged: remove its directory
  // What survived the agent: live and ended shims whose result was not forgotten. Their events follow again.
  virtual Result<std::vector<WorkId>> recover() = 0;
  // Processes of this program have ended: takes away those that came to it from others and that nobody waits for.
  virtual void reap_orphans() {}
};

}  // namespace lockstep
