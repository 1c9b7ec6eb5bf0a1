// Starting one task: placeholders, the user's identity, files opened as that user, the terminal, exec. The child is
// made by vfork, so it shares our memory until it runs the program; everything it needs is prepared before. Whoever
// calls vfork waits for as long as the child takes to open its files, which may be for ever (a FIFO without a writer, a
// file server that is gone): the shim lets a thread wait (task_starter.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/shims.h"
#include "shim/memory_policy.h"
#include "shim/task_inheritance.h"

namespace lockstep {

struct TaskPlace {
  std::uint32_t rank = 0, local = 0, node_index = 0;
  std::string host;
};

// The placeholders of ProcessSpec. \x01p (the pid) stays for the child.
std::string expand_placeholders(std::string_view text, const TaskPlace& place);

// One of the task's three standard descriptors.
struct TaskStream {
  enum class How : unsigned char { kFile, kDescriptor, kTerminal, kJoinOutput } how = How::kFile;
  std::string path = "/dev/null";
  int flags = 0;  // of open(2)
  int fd = -1;    // kDescriptor: the child's end
};

struct TaskPlan {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // later ones win over earlier ones of the same name
  std::string script;            // path of the script file; "" = argv[0] is the program
  int script_fd = -1;            // the same file, for users who cannot reach the path
  std::string program;           // what is executed instead of either, with argv as it is; "" = nothing else
  std::string work_dir;
  bool work_dir_inside = false;  // of a container, too: nothing is said when it is not there on the node
  std::uint32_t uid = 0, gid = 0;
  std::vector<std::uint32_t> groups;
  std::int32_t umask = 022;
  bool makes_tmpdir = false;  // $TMPDIR, where it is not there; where it cannot be used it becomes /tmp
  TaskStream streams[3];
  int terminal = -1;  // slave of the pty
  std::vector<TaskLimit> limits;
  bool no_new_privs = false;       // setuid programs give nothing
  CoreSet cores;                   // processors by their numbers that it may run on; none: all
  MemoryPolicy memory;             // where its memory comes from
  std::string note;                // a line for its error output, without the end of a line
  std::string binding;             // likewise whole lines, with \x01p for its process number (binding_words.h)
  std::vector<std::string> enter;  // files of control groups, each of which takes a "0" from who enters
  int mounts = -1;                 // a mount namespace that it joins; -1 = none
  int ipc = -1;                    // likewise of System V's objects
  int outside = -1;                // with it: a root directory, from which the paths of its streams are opened
  bool blocks_signals = false;     // all that can be: what is stopped has ended before it, and this only clears up
  std::vector<int> inherited;      // descriptors that the program has from 3 on; none for a script
};

struct StartedTask {
  pid_t pid = 0;
  // The program was not reached: a message for the user and the exit status users of Slurm expect.
  std::string failure;
  ExitStatus failure_exit;
};

// One start, in three parts: what needs memory before, what may take for ever in between, what it came to after.
class TaskStart {
 public:
  explicit TaskStart(TaskPlan plan);
  ~TaskStart();
  TaskStart(TaskStart&&) = delete;

  // Returns once the program runs, or certainly never will. Touches nothing but its own memory: any thread may wait.
  void run();
  // Error: no process could be made at all.
  Result<StartedTask> result() const;

 private:
  struct Child;
  std::unique_ptr<Child> child_;
};

// Runs it; its process, or -1 where none could be made.
pid_t run_child(TaskStart& start);

}  // namespace lockstep
