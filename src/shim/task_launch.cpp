#include "shim/task_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr char kMark = '\x01';
constexpr int kFirstInherited = 3;

enum class Stage : int {
  kNone,
  kGroup,
  kMounts,
  kIdentity,
  kOtherUser,
  kOpenInput,
  kOpenOutput,
  kOpenError,
  kTerminal,
  kInherited
};

struct PidText {  // a variable that holds \x01p: expanded by the child
  const char* from;
  char* to;
};

void say(const char* a, const char* b, const char* c = "", const char* d = "", const char* e = "\n") {
  char text[1024];
  std::size_t size = 0;
  for (const char* part : {a, b, c, d, e})
    for (; *part && size < sizeof text; ++part) text[size++] = *part;
  if (::write(2, text, size) < 0)
    return;
}

const char* words_of(int error) {
  const char* words = ::strerrordesc_np(error);
  return words ? words : "Unknown error";
}

void put_pid(const PidText& text, unsigned long pid) {
  char digits[24];
  int count = 0;
  do digits[count++] = static_cast<char>('0' + pid % 10);
  while ((pid /= 10) > 0);
  char* to = text.to;
  for (const char* from = text.from; *from; ++from) {
    if (from[0] == kMark && from[1] == 'p') {
      for (int i = count; i > 0;) *to++ = digits[--i];
      ++from;
    } else {
      *to++ = *from;
    }
  }
  *to = '\0';
}

std::string failure_text(Stage stage, const TaskPlan& plan, int error) {
  const auto file = [&](const char* name, int stream) {
    return std::string("Could not open ") + name + " file " + plan.streams[stream].path + ": " + words_of(error);
  };
  switch (stage) {
    case Stage::kIdentity: return "cannot become uid " + std::to_string(plan.uid) + ": " + words_of(error);
    case Stage::kGroup: return std::string("cannot enter the control group of its job: ") + words_of(error);
    case Stage::kMounts: return std::string("cannot join the mounts of its job: ") + words_of(error);
    case Stage::kOtherUser:
      return "the agent of this node is not root, it runs work of uid " + std::to_string(::geteuid()) +
             " only, not of uid " + std::to_string(plan.uid);
    case Stage::kOpenInput: return file("stdin", 0);
    case Stage::kOpenOutput: return file("stdout", 1);
    case Stage::kOpenError: return file("stderr", 2);
    case Stage::kTerminal: return std::string("cannot take the terminal: ") + words_of(error);
    case Stage::kInherited: return std::string("cannot hand on descriptors: ") + words_of(error);
    case Stage::kNone: break;
  }
  return "unknown failure";
}

}  // namespace

// Everything the child touches: plain pointers into memory that stays.
struct TaskStart::Child {
  explicit Child(TaskPlan p) : plan(std::move(p)) {
    list_words();
    list_variables();
    if (argv.size() > 1)
      list_candidates();
    if (!plan.binding.empty()) {
      binding_buffer.resize(plan.binding.size() * 12);
      pid_texts.push_back({plan.binding.c_str(), binding_buffer.data()});
    }
    CPU_ZERO(&processors);
    plan.cores.for_each([this](std::uint32_t core) {
      if (core < CPU_SETSIZE)
        CPU_SET(core, &processors);
    });
  }
  void list_words();
  void list_variables();
  void list_candidates();
  // In the child.
  [[noreturn]] void main();
  [[noreturn]] void give_up(Stage where);
  [[noreturn]] void run_program();
  using FirstLine = char[256];
  static const char* lost_interpreter_in(int fd, FirstLine& line);
  const char* lost_interpreter(FirstLine& line);
  void enter_groups();
  void join_mounts();
  void bind();
  void become_user();
  int open_path(const TaskStream& stream) const;
  int open_file(const TaskStream& stream);
  void place_stream(int target, Stage where);
  void place_inherited();
  void settle_tmpdir();

  TaskPlan plan;
  std::vector<char*> argv, env;
  char** tmpdir = nullptr;        // its entry of env, where it is to be made sure of
  std::vector<char*> candidates;  // paths to try, in PATH's order
  std::string script_by_fd;       // the script again, for users to whom its folder is closed
  std::vector<PidText> pid_texts;
  std::vector<std::string> paths, pid_buffers;  // memory of the above
  std::string binding_buffer;

  cpu_set_t processors;
  pid_t parent = 0;
  pid_t pid = 0;           // -1: vfork failed
  volatile int stage = 0;  // written by the child, read once vfork has returned
  volatile int error = 0;
};

void TaskStart::Child::give_up(Stage where) {
  error = errno;
  stage = static_cast<int>(where);
  ::_exit(1);
}

// A file that the user named lies where he, who is no part of the job, finds it again.
int TaskStart::Child::open_path(const TaskStream& stream) const {
  const char* path = stream.path.c_str();
  const int flags = stream.flags | O_NOCTTY;
  if (plan.outside < 0 || path[0] != '/')
    return ::open(path, flags, 0666);
  // An absolute link on the way means outside as well. What /proc and /dev say of this process means the process.
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? 0666 : 0;
  how.resolve = RESOLVE_IN_ROOT;
  const auto fd = static_cast<int>(::syscall(SYS_openat2, plan.outside, path, &how, sizeof how));
  if (fd >= 0 || (errno != ELOOP && errno != EXDEV && errno != ENOSYS))
    return fd;
  return ::open(path, flags, 0666);
}

// Whoever submits may make the folder that is named after the job only when it knows the id, and a job can start before
// that: its script waits a second for the folder.
int TaskStart::Child::open_file(const TaskStream& stream) {
  constexpr int kTries = 100;
  constexpr timespec kPause{0, 10'000'000};
  int fd = open_path(stream);
  const bool may_come = (stream.flags & O_CREAT) != 0 && !plan.script.empty();
  for (int tries = 0; fd < 0 && errno == ENOENT && may_come && tries < kTries; ++tries) {
    ::nanosleep(&kPause, nullptr);
    fd = open_path(stream);
  }
  return fd;
}

void TaskStart::Child::place_stream(int target, Stage where) {
  const TaskStream& stream = plan.streams[target];
  int fd = -1;
  switch (stream.how) {
    case TaskStream::How::kFile: fd = open_file(stream); break;
    case TaskStream::How::kDescriptor: fd = stream.fd; break;
    case TaskStream::How::kTerminal: fd = plan.terminal; break;
    case TaskStream::How::kJoinOutput: fd = 1; break;
  }
  if (fd < 0 || (fd != target && ::dup2(fd, target) < 0))
    give_up(where);
  if (fd == target)
    ::fcntl(fd, F_SETFD, 0);
  else if (stream.how == TaskStream::How::kFile && fd > 2)
    ::close(fd);
}

// By itself: a process that is moved by others, or moves as a whole, makes all of the machine wait
// (docs/decisions/0011-control-groups.md).
void TaskStart::Child::enter_groups() {
  for (const auto& file : plan.enter) {
    const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, "0", 1) != 1)
      give_up(Stage::kGroup);
    ::close(fd);
  }
}

void TaskStart::Child::join_mounts() {
  if ((plan.ipc >= 0 && ::syscall(SYS_setns, plan.ipc, CLONE_NEWIPC) != 0) ||
      (plan.mounts >= 0 && ::syscall(SYS_setns, plan.mounts, CLONE_NEWNS) != 0))
    give_up(Stage::kMounts);
}

// A wish: the machine may have other processors by now than those that were given out.
void TaskStart::Child::bind() {
  if (plan.cores.any())
    ::sched_setaffinity(0, sizeof processors, &processors);
  if (plan.memory.mode != MemoryPolicy::Mode::kNone)
    set_memory_policy(plan.memory);
}

// Out of each other's way first: any of them may be where another is to go.
void TaskStart::Child::place_inherited() {
  const int end = kFirstInherited + static_cast<int>(plan.inherited.size());
  for (int& fd : plan.inherited)
    if (fd = ::fcntl(fd, F_DUPFD_CLOEXEC, end); fd < 0)
      give_up(Stage::kInherited);
  int target = kFirstInherited;
  for (const int fd : plan.inherited)
    if (::dup2(fd, target++) < 0)
      give_up(Stage::kInherited);
}

// Raw system calls for the identity: the C library's would try to tell other threads.
void TaskStart::Child::become_user() {
  if (::geteuid() != 0) {  // an agent of one user runs that user's work only
    if (plan.uid != ::geteuid())
      give_up(Stage::kOtherUser);
  } else if (::syscall(SYS_setgroups, plan.groups.size(), plan.groups.data()) != 0 ||
             ::syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid) != 0 ||
             ::syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid) != 0) {
    give_up(Stage::kIdentity);
  }
  shed_capabilities(plan.uid == 0);
  if (plan.no_new_privs)
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

// The program that a script's first line names and that is not there; null otherwise.
const char* TaskStart::Child::lost_interpreter_in(int fd, FirstLine& line) {
  const ssize_t size = ::pread(fd, line, sizeof line - 1, 0);
  if (size < 3 || line[0] != '#' || line[1] != '!')
    return nullptr;
  line[size] = '\0';
  char* word = line + 2 + ::strspn(line + 2, " \t");
  word[::strcspn(word, " \t\n")] = '\0';
  return *word && ::access(word, F_OK) != 0 ? word : nullptr;
}

// Of a script whose interpreter is not there the kernel says that the script itself is not.
const char* TaskStart::Child::lost_interpreter(FirstLine& line) {
  if (plan.script_fd >= 0)
    return lost_interpreter_in(plan.script_fd, line);
  for (char* path : candidates)
    if (const int fd = ::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); fd >= 0) {
      const char* const found = lost_interpreter_in(fd, line);
      ::close(fd);
      return found;
    }
  return nullptr;
}

void TaskStart::Child::run_program() {
  int failed = ENOENT;
  for (char* path : candidates) {
    ::execve(path, argv.data(), env.data());
    if (errno != ENOENT && errno != ENOTDIR)
      failed = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
      break;
  }
  if (failed == EACCES && plan.script_fd >= 0) {
    // The folder is closed to this user; the open file is not. Its interpreter needs it open, under this name.
    ::fcntl(plan.script_fd, F_SETFD, 0);
    ::execve(script_by_fd.c_str(), argv.data(), env.data());
    failed = errno;
  }
  FirstLine line;
  if (const char* const lost = failed == ENOENT ? lost_interpreter(line) : nullptr) {
    say("lockstep: error: execve(): bad interpreter(", lost, "): ", words_of(failed));
    ::_exit(failed);
  }
  const char* hint = failed == ENOEXEC ? " (does its first line begin with #! and an interpreter?)\n" : "\n";
  say("lockstep: error: execve(): ", argv[0], ": ", words_of(failed), hint);
  ::_exit(failed < 256 ? failed : 255);
}

void TaskStart::Child::main() {
  ::setsid();
  if (plan.blocks_signals) {
    const unsigned long all = ~0UL;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof all);
  } else {
    reset_signals();  // before anything that may wait, so that a signal ends it
  }
  shed_standing(plan.limits);
  enter_groups();
  join_mounts();
  bind();
  become_user();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the identity, whose change clears it
  if (::getppid() != parent)
    ::_exit(1);  // the shim was killed before it counted
  ::umask(static_cast<mode_t>(plan.umask));
  const char* home = plan.work_dir.empty() ? "/" : plan.work_dir.c_str();
  int chdir_error = 0;
  if (::chdir(home) != 0) {
    chdir_error = errno;
    if (::chdir("/tmp") != 0 && ::chdir("/") != 0)
      give_up(Stage::kIdentity);  // not in the shim's folder
  }
  if (plan.terminal >= 0 && ::ioctl(plan.terminal, TIOCSCTTY, 0) != 0)
    give_up(Stage::kTerminal);
  place_stream(0, Stage::kOpenInput);
  place_stream(1, Stage::kOpenOutput);
  place_stream(2, Stage::kOpenError);
  if (chdir_error && !plan.work_dir_inside)
    say("lockstep: error: couldn't chdir to `", home, "': ", words_of(chdir_error), ": going to /tmp instead\n");

  settle_tmpdir();
  if (!plan.note.empty())
    say(plan.note.c_str(), "");

  for (const auto& text : pid_texts) put_pid(text, static_cast<unsigned long>(::getpid()));
  if (!plan.binding.empty())
    say(binding_buffer.c_str(), "", "", "", "");
  place_inherited();
  close_on_exec_from(kFirstInherited + static_cast<int>(plan.inherited.size()));
  limit_descriptors(plan.limits);
  run_program();
}

// As slurmstepd does.
void TaskStart::Child::settle_tmpdir() {
  if (!tmpdir)
    return;
  const char* path = ::strchr(*tmpdir, '=') + 1;
  struct stat facts {};
  int why = 0;
  if (::mkdir(path, 0700) == 0)
    return;
  if (const int no_folder = errno; ::stat(path, &facts) != 0)
    why = no_folder;
  else if (!S_ISDIR(facts.st_mode))
    why = ENOTDIR;
  else if (::faccessat(AT_FDCWD, path, X_OK | W_OK, AT_EACCESS) != 0)
    why = errno;
  if (why == 0)
    return;
  say("lockstep: error: TMPDIR [", path, "]: ", words_of(why), ": setting TMPDIR to /tmp\n");
  static char fallback[] = "TMPDIR=/tmp";
  *tmpdir = fallback;
}

void TaskStart::Child::list_words() {
  if (!plan.script.empty() && plan.program.empty())
    argv.push_back(plan.script.data());
  for (auto& word : plan.argv) argv.push_back(word.data());
  argv.push_back(nullptr);
}

// The last of equal names wins; the order of the first ones stays.
void TaskStart::Child::list_variables() {
  std::map<std::string_view, std::size_t> position;
  pid_buffers.reserve(plan.env.size());
  for (auto& variable : plan.env) {
    char* text = variable.data();
    if (variable.find("\x01p") != variable.npos) {
      pid_buffers.emplace_back(variable.size() * 12, '\0');
      pid_texts.push_back({variable.c_str(), pid_buffers.back().data()});
      text = pid_buffers.back().data();
    }
    const auto [at, fresh] = position.try_emplace(std::string_view(variable).substr(0, variable.find('=')), env.size());
    if (fresh)
      env.push_back(text);
    else
      env[at->second] = text;
  }
  env.push_back(nullptr);
  if (const auto at = position.find("TMPDIR"); plan.makes_tmpdir && at != position.end())
    tmpdir = &env[at->second];
}

void TaskStart::Child::list_candidates() {
  const std::string_view program(argv[0]);
  if (!plan.program.empty()) {
    paths.push_back(plan.program);
  } else if (!plan.script.empty()) {
    paths.push_back(plan.script);
    script_by_fd = "/proc/self/fd/" + std::to_string(plan.script_fd);
  } else if (program.find('/') != program.npos) {
    paths.emplace_back(program);
  } else {
    std::string_view path = "/usr/local/bin:/usr/bin:/bin";
    for (const char* variable : env)
      if (variable && std::string_view(variable).starts_with("PATH="))
        path = variable + 5;
    for (;;) {
      const auto colon = path.find(':');
      const std::string_view dir = path.substr(0, colon);
      paths.push_back((dir.empty() ? "." : std::string(dir)).append("/").append(program));
      if (colon == path.npos)
        break;
      path.remove_prefix(colon + 1);
    }
  }
  for (auto& candidate : paths) candidates.push_back(candidate.data());
}

std::string expand_placeholders(std::string_view text, const TaskPlace& place) {
  std::string out;
  const auto put_number = [&out](std::uint32_t value, std::size_t width) {
    const std::string digits = std::to_string(value);
    out.append(width > digits.size() ? width - digits.size() : 0, '0').append(digits);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::size_t letter = i + 1, width = 0;
    while (text[i] == kMark && letter < text.size() && text[letter] >= '0' && text[letter] <= '9' && width < 100)
      width = width * 10 + static_cast<std::size_t>(text[letter++] - '0');
    if (text[i] != kMark || letter >= text.size()) {
      out.push_back(text[i]);
      continue;
    }
    switch (text[letter]) {
      case 't': put_number(place.rank, width); break;
      case 'l': put_number(place.local, width); break;
      case 'n': put_number(place.node_index, width); break;
      case 'N': out += place.host; break;
      default: out.append({kMark, text[letter]});
    }
    i = letter;
  }
  return out;
}

TaskStart::TaskStart(TaskPlan plan) : child_(std::make_unique<Child>(std::move(plan))) {
  CHECK(child_->plan.inherited.empty() || child_->plan.script_fd < 0, "a script's descriptor may be where others go");
}
TaskStart::~TaskStart() = default;

void TaskStart::run() {
  Child& child = *child_;
  if (child.candidates.empty())
    return;
  CHECK(child.pid == 0 && child.stage == 0, "a start runs a second time");
  child.parent = ::getpid();
  child.pid = ::vfork();
  if (child.pid == 0)
    child.main();
  if (child.pid < 0)
    child.error = errno;
  else if (child.stage != 0)
    ::waitpid(child.pid, nullptr, 0);  // unless the shim was faster
}

Result<StartedTask> TaskStart::result() const {
  const Child& child = *child_;
  if (child.candidates.empty())
    return Error{Errc::kInvalid, "no program to run", "argv"};
  if (child.pid < 0)
    return Error{Errc::kExhausted, std::string("cannot make a process: ") + words_of(child.error), {}};
  CHECK(child.pid > 0, "a start is asked for what came of it before it has run");
  StartedTask started;
  started.pid = child.pid;
  if (const auto stage = static_cast<Stage>(child.stage); stage != Stage::kNone) {
    started.failure = failure_text(stage, child.plan, child.error);
    const bool ours =
        stage == Stage::kGroup || stage == Stage::kMounts || stage == Stage::kIdentity || stage == Stage::kOtherUser;
    started.failure_exit = ours ? ExitStatus{1, 0, false} : ExitStatus{0, kNotOpenedSignal, false, true};
  }
  return started;
}

pid_t run_child(TaskStart& start) {
  start.run();
  const auto started = start.result();
  return started.ok() ? started->pid : pid_t{-1};
}

}  // namespace lockstep
