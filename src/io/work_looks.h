// What running work uses, as /proc, control groups and the shims' folders tell at one moment: figures for
// io/use_book.h, which remembers them. It waits for nobody but the kernel, and may be used from one thread at a time.
//
// A process belongs to the task that it descends from. One whose parent has ended is the shim's child, and belongs to
// the task that leads its session. Source: proc(5); the kernel's admin-guide/cgroup-v1/cpuacct.rst and cgroup-v2.rst.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "io/local/cgroups.h"
#include "model/work_id.h"
#include "shim/protocol.h"

namespace lockstep {

// Of one task: the sum over its processes that live.
struct TaskLook {
  std::uint32_t rank = 0;
  std::int64_t memory = 0;  // bytes in RAM
  Duration cpu;             // with what it has waited for
};

// Of a container that runs.
struct ContainerLook {
  std::string name;
  Duration cpu;             // of this life of it
  std::int64_t memory = 0;  // bytes, without files that the kernel could drop at once
};

struct WorkLook {
  WorkId key;
  Duration user, system;  // of all its processes
  std::int64_t read_bytes = 0,
               written_bytes = 0;              // from and to disks, of those that live and what they have waited for
  std::vector<TaskLook> tasks;                 // of which something lives; none: it has ended, or has not begun
  std::vector<ContainerLook> containers = {};  // where this node has control groups
};

class WorkLooks {
 public:
  // run_dir: as in make_shims(). groups: null where this node has none; then what processes did that nobody waited for
  // is not counted once they have ended.
  WorkLooks(const std::string& run_dir, std::shared_ptr<const Cgroups> groups);

  // Everything that has a folder: scripts, steps and tasks.
  std::vector<WorkLook> look();
  // Whose process it is; nothing for others.
  std::optional<WorkId> work_of(pid_t pid);

 private:
  struct Known {
    bool launched = false;  // its processes are known
    pid_t shim = 0;
    std::vector<std::uint32_t> ranks;
    std::vector<ShimPid> tasks;  // by ranks
  };
  struct Root {  // a task's first process, or a shim
    WorkId key;
    std::optional<std::size_t> task;  // nothing: the shim
    std::int64_t started_us = 0;      // 0 = not compared
  };
  struct Process;

  void look_for_folders();
  void read_record(const WorkId& key, Known& known) const;
  void find_roots();
  const Root* root_of(pid_t pid, const Process& process) const;
  std::size_t task_of_session(const WorkId& key, pid_t session) const;

  std::string shims_;
  std::shared_ptr<const Cgroups> groups_;
  std::map<WorkId, Known> known_;
  std::map<pid_t, Root> roots_;
};

// 100 is one process that ran or wanted to over the last minute.
std::uint32_t load_percent();
std::int64_t memory_free_mb();  // of the machine; 0 where it does not say
std::int64_t memory_used_mb();  // likewise, without files that the kernel could drop at once
Duration processors_busy();     // the time in which they worked, all together, since the machine's boot

}  // namespace lockstep
