#include "shim/task_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>

namespace lockstep {
namespace {

constexpr char kMark = '\x01';

enum class Stage : int { kNone, kIdentity, kOpenInput, kOpenOutput, kOpenError, kTerminal };

// Everything the child touches: plain pointers into memory the parent keeps alive.
struct ChildPlan {
  const TaskPlan* plan = nullptr;
  std::vector<char*> argv, env;
  std::vector<char*> candidates;  // paths to try, in PATH's order
  std::string script_by_fd;       // the script again, for users to whom its folder is closed
  struct PidText {
    const char* from;
    char* to;
  };
  std::vector<PidText> pid_texts;  // variables that hold \x01p: expanded by the child
  volatile int stage = 0;          // written by the child, read by the parent after vfork returns
  volatile int error = 0;
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

void put_pid(const ChildPlan::PidText& text, unsigned long pid) {
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

[[noreturn]] void give_up(ChildPlan& child, Stage stage) {
  child.error = errno;
  child.stage = static_cast<int>(stage);
  ::_exit(1);
}

void place_stream(ChildPlan& child, int target, Stage stage) {
  const TaskStream& stream = child.plan->streams[target];
  int fd = -1;
  switch (stream.how) {
    case TaskStream::How::kFile: fd = ::open(stream.path.c_str(), stream.flags | O_NOCTTY, 0666); break;
    case TaskStream::How::kDescriptor: fd = stream.fd; break;
    case TaskStream::How::kTerminal: fd = child.plan->terminal; break;
    case TaskStream::How::kJoinOutput: fd = 1; break;
  }
  if (fd < 0 || (fd != target && ::dup2(fd, target) < 0))
    give_up(child, stage);
  if (fd == target)
    ::fcntl(fd, F_SETFD, 0);
  else if (stream.how == TaskStream::How::kFile && fd > 2)
    ::close(fd);
}

// Raw system calls for the identity: the C library's would try to tell other threads.
void become_user(ChildPlan& child) {
  const TaskPlan& plan = *child.plan;
  if (::geteuid() != 0) {
    // An agent of one user runs that user's work only. Nobody else's may become his.
    errno = EPERM;
    if (plan.uid != ::geteuid())
      give_up(child, Stage::kIdentity);
    return;
  }
  if (::syscall(SYS_setgroups, plan.groups.size(), plan.groups.data()) != 0 ||
      ::syscall(SYS_setresgid, plan.gid, plan.gid, plan.gid) != 0 ||
      ::syscall(SYS_setresuid, plan.uid, plan.uid, plan.uid) != 0)
    give_up(child, Stage::kIdentity);
}

[[noreturn]] void run_program(ChildPlan& child) {
  const TaskPlan& plan = *child.plan;
  int error = ENOENT;
  for (char* path : child.candidates) {
    ::execve(path, child.argv.data(), child.env.data());
    if (errno != ENOENT && errno != ENOTDIR)
      error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
      break;
  }
  if (error == EACCES && plan.script_fd >= 0) {
    // The folder is closed to this user; the open file is not.
    ::fcntl(plan.script_fd, F_SETFD, 0);
    ::execve(child.script_by_fd.c_str(), child.argv.data(), child.env.data());
    error = errno;
  }
  const char* hint = error == ENOEXEC ? " (does its first line begin with #! and an interpreter?)\n" : "\n";
  say("lockstep: error: execve(): ", child.argv[0], ": ", words_of(error), hint);
  ::_exit(error < 256 ? error : 255);
}

[[noreturn]] void child_main(ChildPlan& child) {
  const TaskPlan& plan = *child.plan;
  ::setsid();
  become_user(child);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the identity, whose change clears it
  ::umask(static_cast<mode_t>(plan.umask));
  const char* home = plan.work_dir.empty() ? "/" : plan.work_dir.c_str();
  int chdir_error = 0;
  if (::chdir(home) != 0) {
    chdir_error = errno;
    if (::chdir("/tmp") != 0) {
      // Stays where the shim is: its folder is readable, and the message below says what happened.
    }
  }
  if (plan.terminal >= 0 && ::ioctl(plan.terminal, TIOCSCTTY, 0) != 0)
    give_up(child, Stage::kTerminal);
  place_stream(child, 0, Stage::kOpenInput);
  place_stream(child, 1, Stage::kOpenOutput);
  place_stream(child, 2, Stage::kOpenError);
  if (chdir_error)
    say("lockstep: error: couldn't chdir to `", home, "': ", words_of(chdir_error), ": going to /tmp instead\n");

  for (const auto& text : child.pid_texts) put_pid(text, static_cast<unsigned long>(::getpid()));
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  run_program(child);
}

std::string failure_text(Stage stage, const TaskPlan& plan, int error) {
  const auto file = [&](const char* name, int stream) {
    return std::string("Could not open ") + name + " file " + plan.streams[stream].path + ": " + words_of(error);
  };
  switch (stage) {
    case Stage::kIdentity: return "cannot become uid " + std::to_string(plan.uid) + ": " + words_of(error);
    case Stage::kOpenInput: return file("stdin", 0);
    case Stage::kOpenOutput: return file("stdout", 1);
    case Stage::kOpenError: return file("stderr", 2);
    case Stage::kTerminal: return std::string("cannot take the terminal: ") + words_of(error);
    case Stage::kNone: break;
  }
  return "unknown failure";
}

void list_candidates(ChildPlan& child, std::vector<std::string>& storage) {
  const TaskPlan& plan = *child.plan;
  if (!plan.script.empty()) {
    storage.push_back(plan.script);
    child.script_by_fd = "/proc/self/fd/" + std::to_string(plan.script_fd);
  } else if (plan.argv[0].find('/') != std::string::npos) {
    storage.push_back(plan.argv[0]);
  } else {
    std::string_view path = "/usr/local/bin:/usr/bin:/bin";
    for (const char* variable : child.env)
      if (variable && std::string_view(variable).starts_with("PATH="))
        path = variable + 5;
    for (;;) {
      const auto colon = path.find(':');
      const std::string_view dir = path.substr(0, colon);
      storage.push_back(dir.empty() ? "./" + plan.argv[0] : std::string(dir) + "/" + plan.argv[0]);
      if (colon == path.npos)
        break;
      path.remove_prefix(colon + 1);
    }
  }
  for (auto& candidate : storage) child.candidates.push_back(candidate.data());
}

}  // namespace

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

Result<StartedTask> start_task(const TaskPlan& plan) {
  ChildPlan child;
  child.plan = &plan;
  for (const auto& word : plan.argv) child.argv.push_back(const_cast<char*>(word.c_str()));
  if (!plan.script.empty())
    child.argv.insert(child.argv.begin(), const_cast<char*>(plan.script.c_str()));
  if (child.argv.empty())
    return Error{Errc::kInvalid, "no program to run", "argv"};
  child.argv.push_back(nullptr);

  // The last of equal names wins; the order of the first ones stays.
  std::map<std::string_view, std::size_t> position;
  std::vector<std::string> pid_buffers;
  pid_buffers.reserve(plan.env.size());
  for (const auto& variable : plan.env) {
    char* text = const_cast<char*>(variable.c_str());
    if (const auto mark = variable.find("\x01p"); mark != variable.npos) {
      pid_buffers.emplace_back(variable.size() * 12, '\0');
      child.pid_texts.push_back({variable.c_str(), pid_buffers.back().data()});
      text = pid_buffers.back().data();
    }
    const auto [at, fresh] =
        position.try_emplace(std::string_view(variable).substr(0, variable.find('=')), child.env.size());
    if (fresh)
      child.env.push_back(text);
    else
      child.env[at->second] = text;
  }
  std::vector<std::string> storage;
  list_candidates(child, storage);
  child.env.push_back(nullptr);

  const pid_t pid = ::vfork();
  if (pid == 0)
    child_main(child);
  if (pid < 0)
    return Error{Errc::kExhausted, std::string("cannot make a process: ") + words_of(errno), {}};
  StartedTask started;
  started.pid = pid;
  if (const auto stage = static_cast<Stage>(child.stage); stage != Stage::kNone) {
    started.failure = failure_text(stage, plan, child.error);
    // Slurm reports files it could not open as 0:53.
    started.failure_exit = stage == Stage::kIdentity ? ExitStatus{1, 0, false} : ExitStatus{0, 53, false};
    ::waitpid(pid, nullptr, 0);
  }
  return started;
}

}  // namespace lockstep
