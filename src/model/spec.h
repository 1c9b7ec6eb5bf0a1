// JobSpec: what a user asked for.
//
// A job has groups of equal tasks. How a group runs is its Launch:
//   kScript  one process, the batch script, starts on the first node; its end ends the job (sbatch)
//   kNothing the allocation waits for steps from outside; a client or a command ends it (salloc, srun)
//   kTasks   the cluster starts every task and replaces each by the group's restart rule (pods, replicas, SkyPilot
//   runs)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shared.h"
#include "base/time.h"
#include "model/dependency.h"
#include "model/ids.h"
#include "model/placement.h"
#include "model/program.h"
#include "model/sandbox.h"
#include "model/service.h"

namespace lockstep {

// A role: a Slurm het component, a Kubernetes replica set, one side of a leader/worker pair.
struct GroupSpec : Placement, Program, Service {
  using Bases = std::tuple<Placement, Program, Service>;  // for the list of fields
  std::string name;
  Sandbox sandbox;  // kTasks
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

struct SignalAhead {        // --signal: sent this long before the time limit
  std::int32_t signal = 0;  // 0 = none
  Duration ahead;
  bool script_only = false;  // "B:"
  friend bool operator==(const SignalAhead&, const SignalAhead&) = default;
};

// What is copied to a job's scratch before it starts, or from there when it has ended (docs/staging.md).
struct StagedPath {
  std::string from, to;
  friend bool operator==(const StagedPath&, const StagedPath&) = default;
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
  // Among those that have one, the higher may preempt the lower (rules/preempt.h). Nothing: neither preempts by it nor
  // is preempted.
  std::optional<std::int32_t> precedence;
  bool waits_its_turn = false;     // preempts nobody by its precedence
  bool requeue = true;             // may be started again after a node's loss
  bool requeue_set = false;        // the user said so
  bool survive_node_loss = false;  // --no-kill
  SignalAhead signal_ahead;
  Duration kill_wait = seconds(30);    // from SIGTERM to SIGKILL
  std::int32_t checkpoint_signal = 0;  // told before it is preempted or moved, so that it saves its work; 0 = cannot
  SharedText checkpoint_file;          // pattern (%j …); whoever touches it there says that the work is saved
  SharedText checkpoint_line;          // so does a line of output that begins with this
  SharedList<StagedPath> stage_in;     // to each node, before anything starts; `to` lies in the job's scratch
  SharedList<StagedPath> stage_out;    // when all has ended there, however; `from` lies in the job's scratch

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
  SharedText scope;         // namespace of the labels, which other jobs' terms name; "" = none sees the job
  SharedText health_check;  // the cluster runs it as this check (model/health.h); nobody can ask for it
  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

// A path below a directory that it cannot leave: relative, no "..", neither empty nor longer than a path may be.
bool stays_below(std::string_view path);

// Where a part of spec equals that of the other one, both share it from now on.
void share_parts(JobSpec& spec, const JobSpec& other);

}  // namespace lockstep
