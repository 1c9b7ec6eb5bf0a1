// Cgroups: the control groups of a node's work. A job has a group, which holds it to its limits; below it each part
// (its script, a step) has one, which holds its processes and counts what they used. Both last until they are removed:
// an agent that starts again finds them.
//
//   BASE/NAME/12-1/          job 12, attempt 1: limits
//   BASE/NAME/12-1/batch/    its script: processes
//   BASE/NAME/12-1/0/        step 0
//
// Under version 1 the same tree stands once below each controller. Source: admin-guide/cgroup-v1 and cgroup-v2.rst of
// the kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/local/cgroup_host.h"
#include "io/local/device_filter.h"
#include "model/work_id.h"

namespace lockstep {

struct GroupLimits {
  std::int64_t memory_mb = 0;       // with swap; 0 = none
  std::uint32_t processes = 0;      // and threads; 0 = none
  std::string cpus;                 // as in cpuset.cpus: "0-3,8"; "" = all that the node has
  std::uint32_t cores = 0;          // its weight where jobs compete for processors and disks; 0 = as any other
  std::int64_t part_memory_mb = 0;  // of the part alone; 0 = what the job has
  DeviceLimits devices;             // which the part may not open
};

struct GroupUse {
  std::int64_t cpu_us = 0;
  std::int64_t user_us = 0, system_us = 0;  // of cpu_us, as exactly as the kernel splits it
  std::int64_t memory_peak = 0;             // bytes; 0 = the kernel does not say
  std::uint64_t oom_kills = 0;              // processes that were killed because the job was at its limit
};

// A group that the part has made below its own: a container.
struct GroupBelow {
  std::string name;
  std::int64_t cpu_us = 0;
  std::int64_t memory = 0;  // bytes, without files that the kernel could drop at once
};

// Of a node's tree. owner: the id of the cluster that `lockstep up` made here (io/local/process.h), or what else tells
// agents of one machine apart. Without a node: how the names of all trees of that owner begin.
std::string tree_name(const std::string& owner, const std::string& node = {});

class Cgroups {
 public:
  // base: a directory of a version 2 hierarchy below which we may make groups ("" = the process's own group). An error
  // there where processes lie in it: version 2 wants groups or processes, not both.
  static Result<std::unique_ptr<Cgroups>> open(CgroupHost host, const std::string& name, const std::string& base = {});

  // Of all jobs together.
  Result<void> limit_all(std::uint32_t processes);

  // Makes the part's group and its job's, if they are not there, and gives the job the limits that are named: a limit
  // of none leaves what there is, also that of an agent that ended in the middle. To each file that is returned a
  // process writes "0" to be in the group.
  Result<std::vector<std::string>> make(const WorkId& work, const GroupLimits& limits);
  GroupUse use(const WorkId& work) const;  // zeros where it is gone
  // Bytes that all jobs together hold now, without files that the kernel could drop at once.
  std::int64_t memory_held() const;
  std::vector<GroupBelow> below(const WorkId& work) const;

  // For the shim, which looks by itself: where the kernel counts what it kills of the part for want of memory, and what
  // freezes it. "" = there is none.
  std::string oom_file(const WorkId& work) const;
  std::string freeze_file(const WorkId& work) const;

  // Nothing of the part runs while it is frozen. What ends a process ends it at once under version 2, and under version
  // 1 when it is thawed; SIGCONT changes nothing.
  Result<void> freeze(const WorkId& work, bool frozen);
  bool is_frozen(const WorkId& work) const;  // every process has stopped
  // Everything in it gets SIGKILL. How many were seen; 0: it is empty.
  std::size_t kill(const WorkId& work);
  // False: processes are there still. The job's group goes with its last part.
  bool remove(const WorkId& work);

  // Parts that have a group, of this agent or an older one.
  std::vector<WorkId> parts() const;

  bool limits_processes() const { return host_.has("pids"); }
  bool denies_devices() const { return host_.has("devices"); }
  bool limits_processors() const { return host_.has("cpuset"); }
  void close();  // the tree itself goes, where it is empty

  // What is paused in trees of any agent whose names begin so goes on, or comes to its end: under version 1 no signal
  // reaches it before.
  static void thaw_trees(const CgroupHost& host, const std::string& prefix);

  // Trees of any agent whose names begin so, with the groups in them that hold no process.
  static void remove_trees(const CgroupHost& host, const std::string& prefix);

 private:
  Cgroups(CgroupHost host, std::string name) : host_(std::move(host)), name_(std::move(name)) {}
  std::string job_dir(const std::string& root, const WorkId& work) const;
  std::string part_dir(const std::string& root, const WorkId& work) const;
  Result<void> limit(const WorkId& work, const GroupLimits& limits);
  void weigh(const WorkId& work, std::uint32_t cores);
  Result<void> limit_memory(const std::string& group, std::int64_t megabytes);
  std::vector<std::string> roots() const;  // different directories that hold the tree

  CgroupHost host_;
  std::string name_;
};

}  // namespace lockstep
