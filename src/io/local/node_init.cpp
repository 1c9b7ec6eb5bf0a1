#include "io/local/node_init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "io/local/daemon.h"
#include "io/local/restarts.h"
#include "io/local/simulated_gpus.h"
#include "io/local/virtual_network.h"

namespace lockstep {

namespace {

constexpr int kGateFd = 3;
constexpr const char* kTerminalsOfNode = "newinstance,gid=5,mode=620,ptmxmode=666";

Result<void> mount_or_error(const char* source, const char* target, const char* type, unsigned long flags,
                            const char* data) {
  if (mount(source, target, type, flags, data) != 0)
    return os_error(format("cannot mount {} on {}", source, target));
  return {};
}

// A new PID namespace claims to have room for more processes than the machine, which goes on counting (kernel/pid.c
// since 6.14). Older kernels have one number for all.
void tell_pid_max(const std::string& number) {
  const int fd = open("/proc/sys/kernel/pid_max", O_WRONLY | O_CLOEXEC);
  [[maybe_unused]] const ssize_t size = fd < 0 || number.empty() ? 0 : write(fd, number.data(), number.size());
  if (fd >= 0)
    close(fd);
}

// A login shell sets PATH anew in /etc/profile: a script that begins with `#!/bin/bash -l` would not find the commands
// of a cluster that is not installed. The nodes' own says at its end where they are.
Result<void> show_commands_to_login_shells(const NodeInit& init) {
  const auto machines = read_file("/etc/profile");
  if (!machines)
    return {};  // no shell of this machine reads one
  std::string commands;
  for (const char c : init.agent.substr(0, init.agent.rfind('/'))) commands += c == '\'' ? "'\\''" : std::string(1, c);
  const std::string profile = init.dir + "/profile";
  TRY(write_file(profile,
                 format("{}\n# Added for nodes of `lockstep up`.\ncase :$PATH: in\n*:'{}':*) ;;\n*) "
                        "PATH='{}':$PATH ;;\nesac\nexport PATH\n",
                        *machines, commands, commands),
                 0644));
  return mount_or_error(profile.c_str(), "/etc/profile", nullptr, MS_BIND, nullptr);
}

// A file that is replaced on the machine by another one of its name, as useradd and packages do it, loses what is
// mounted on it in every namespace.
Result<void> show_files_again(const NodeInit& init) {
  if (init.address.empty())
    return {};
  const std::pair<std::string, const char*> files[] = {{init.hosts_file, "/etc/hosts"},
                                                       {init.dir + "/hostname", "/etc/hostname"}};
  for (const auto& [file, target] : files)
    if (access(target, F_OK) == 0 && !is_shown_at(file, target))
      TRY(mount_or_error(file.c_str(), target, nullptr, MS_BIND, nullptr));
  return init.library_path.empty() ? Result<void>() : show_library_again({init.dir, init.library_path});
}

Result<void> set_up_virtual(const NodeInit& init) {
  if (sethostname(init.name.c_str(), init.name.size()) != 0)
    return os_error("sethostname");
  TRY(mount_or_error("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr));
  TRY(mount_or_error("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr));
  tell_pid_max(init.pid_max);
  TRY(mount_or_error(init.hosts_file.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr));
  const std::string hostname_file = init.dir + "/hostname";
  TRY(write_file(hostname_file, init.name + "\n", 0644));
  if (access("/etc/hostname", F_OK) == 0)
    TRY(mount_or_error(hostname_file.c_str(), "/etc/hostname", nullptr, MS_BIND, nullptr));
  TRY(show_commands_to_login_shells(init));
  // A machine has its own /run and shared memory; everything else is the cluster's shared file system.
  TRY(mount_or_error("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1g"));
  TRY(make_dirs("/run/lockstep"));
  TRY(make_dirs("/run/lock"));
  // Everybody may write there, and must not fill what the agent needs.
  TRY(mount_or_error("tmpfs", "/run/lock", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=5m"));
  TRY(mount_or_error((init.dir + "/run").c_str(), "/run/lockstep", nullptr, MS_BIND, nullptr));
  if (access("/dev/shm", F_OK) == 0)
    TRY(mount_or_error("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"));
  // Terminals of its own, which belong to the group "tty" as those of a login do: sshd of an ordinary user insists.
  if (access("/dev/pts", F_OK) == 0 && access("/dev/ptmx", F_OK) == 0)
    TRY(mount_or_error("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, kTerminalsOfNode));
  if (!init.library_path.empty())
    if (const auto seen = show_simulated_gpus({init.dir, init.library_path}); !seen)
      fprintf(stderr, "node %s: jobs do not find nvidia-smi or NVIDIA's library: %s\n", init.name.c_str(),
              seen.error().message.c_str());

  char byte;
  while (read(kGateFd, &byte, 1) < 0 && errno == EINTR) {}
  return run_program({"ip", "-batch", "-"}, commands_for_node_end(init.address, init.prefix, init.gateway));
}

// This machine since its start, or this container since its own.
Result<std::string> machine_boot() {
  const std::string boot = TRY(read_file("/proc/sys/kernel/random/boot_id"));
  const auto first = identify(1);
  return format("{}-{}", trim(boot), first ? first->start_ticks : 0);
}

// A virtual node begins anew with its first process. A plain one is this machine: what runs there when its first
// process is killed runs on, and must not be taken for stopped.
Result<void> new_boot_id(const NodeInit& init) {
  const std::string path = init.dir + "/" + kBootIdFile;
  if (init.address.empty())
    return keep_machine_boot_id(path);
  return write_file(path, trim(TRY(read_file("/proc/sys/kernel/random/uuid"))));
}

pid_t start_agent(const NodeInit& init) {
  const pid_t pid = fork();
  if (pid != 0)
    return pid;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // who starts it again would be missing; what it started goes on without it
  if (!init.library_path.empty())
    setenv("LD_LIBRARY_PATH", init.library_path.c_str(), 1);
  setenv("LOCKSTEP_STANDIN_NVML", (init.dir + "/gpus").c_str(), 1);
  const std::string settings = init.dir + "/agent.json";
  execl(init.agent.c_str(), "lockstep-agent", "--settings", settings.c_str(), nullptr);
  fprintf(stderr, "node %s: cannot run %s: %s\n", init.name.c_str(), init.agent.c_str(), strerror(errno));
  _exit(127);
}

// Keeps the agent running and reaps whoever ends, until SIGTERM.
class AgentKeeper {
 public:
  AgentKeeper(const NodeInit& init, const sigset_t& watched)
      : init_(init),
        watched_(watched),
        log_(init.dir + "/log"),
        file_(RunNoteFile::open(init.dir + "/" + kAgentNoteFile)) {}

  void run() {
    start();
    for (bool go_on = true; go_on;) {
      rotate_log(log_);
      show_again();
      const timespec look_every{2, 0};  // at the size of the log, and at the files that are the node's own
      const int got = sigtimedwait(&watched_, nullptr, &look_every);
      go_on = got != SIGTERM && got != SIGINT && (!reap() || start_again());
    }
    if (agent_ > 0)
      kill(agent_, SIGKILL);
  }

 private:
  void start() {
    log_from_ = size_of_file(log_);
    agent_ = start_agent(init_);
    since_ = time(nullptr);
    note_.next_at_s = 0;
    note_.process = identify(agent_);
    write();
  }

  void show_again() {
    const auto shown = show_files_again(init_);
    if (!shown.ok() && !said_)
      fprintf(stderr, "node %s: a file of its own is not seen any more: %s\n", init_.name.c_str(),
              shown.error().message.c_str());
    said_ = !shown.ok();
  }

  void write() const {
    if (file_)
      file_->write(note_);
  }

  bool reap() {  // true: the agent was among them
    bool agent_ended = false;
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
      if (pid == agent_) {
        agent_ended = true;
        agent_ = 0;
        note_.ended = ending_text(status, log_, log_from_);
        note_.ended_by_itself = WIFEXITED(status);
      }
    return agent_ended;
  }

  bool start_again() {  // false: we are to end
    CHECK(agent_ == 0, "an agent would run beside another one");
    const Duration pause = backoff_.after(seconds(time(nullptr) - since_));
    ++note_.ends;
    note_.process.reset();
    note_.ended_at_s = time(nullptr);
    note_.next_at_s = note_.ended_at_s + std::max<std::int64_t>(1, pause.seconds());
    write();
    fprintf(stderr, "node %s: the agent ended (%s); starting it again in %lld ms\n", init_.name.c_str(),
            note_.ended.c_str(), static_cast<long long>(pause.millis()));
    const timespec wait{pause.us / 1'000'000, (pause.us % 1'000'000) * 1000};
    sigset_t telling;
    sigemptyset(&telling);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&telling, number);
    const int got = sigtimedwait(&telling, nullptr, &wait);
    if (got == SIGHUP)
      backoff_.forgive();
    if (got == SIGTERM || got == SIGINT)
      return false;
    start();
    return true;
  }

  const NodeInit& init_;
  sigset_t watched_;
  std::string log_;
  Result<RunNoteFile> file_;
  Backoff backoff_;
  RunNote note_;
  bool said_ = false;  // that a file cannot be shown
  pid_t agent_ = 0;
  time_t since_ = 0;
  std::int64_t log_from_ = 0;
};

// A plain node shares the machine's pid namespace: everything below us is found through the children lists. One that
// has not ended yet; 0 = none.
pid_t kill_descendants(pid_t of) {
  pid_t left = 0;
  for (const pid_t child : children_of(of)) {
    CHECK(child > 0 && child != getpid());
    kill(child, SIGSTOP);  // no new children while we walk
    const pid_t below = kill_descendants(child);
    kill(child, SIGKILL);
    if (below != 0 || identify(child))
      left = below != 0 ? below : child;
  }
  return left;
}

struct ShimProcess {
  pid_t pid;
  std::string name;  // of its folder
};

// Each shim works in a folder of its own below, as the folder's owner: every user can run something of that name there.
std::vector<ShimProcess> shims_in(const std::string& folder) {
  std::vector<ShimProcess> out;
  struct stat found {};
  const uid_t owner = stat(folder.c_str(), &found) == 0 ? found.st_uid : geteuid();
  DIR* dir = opendir("/proc");
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    const auto pid = parse_uint(entry->d_name);
    char cwd[PATH_MAX];
    const ssize_t n = pid ? readlink(format("/proc/{}/cwd", *pid).c_str(), cwd, sizeof cwd) : 0;
    const std::string_view path(cwd, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (path.starts_with(folder) && command_name(static_cast<pid_t>(*pid)) == "lockstep-shim" &&
        runs_as(static_cast<pid_t>(*pid), owner) && identify(static_cast<pid_t>(*pid)))
      out.push_back({static_cast<pid_t>(*pid), std::string(path.substr(path.rfind('/') + 1))});
  }
  if (dir)
    closedir(dir);
  return out;
}

}  // namespace

Result<void> keep_machine_boot_id(const std::string& path) {
  const std::string machine = TRY(machine_boot());
  if (const auto last = read_file(path); last && last->starts_with(machine + "-"))
    return {};
  const std::string uuid = TRY(read_file("/proc/sys/kernel/random/uuid"));
  return write_file(path, format("{}-{}", machine, uuid.substr(0, 8)));
}

Result<void> end_shims_below(const std::string& folder) {
  constexpr Duration kPatience = seconds(5);
  const Instant until = boot_now() + kPatience;
  for (;;) {
    const auto shims = shims_in(folder);
    if (shims.empty())
      return {};
    pid_t left = 0;
    for (const auto& [shim, name] : shims) {
      kill(shim, SIGSTOP);  // it starts nothing more
      const pid_t below = kill_descendants(shim);
      // The shim goes last: by it whoever tries again finds what does not end.
      if (below == 0)
        kill(shim, SIGKILL);
      left = below != 0 ? below : shim;
    }
    if (boot_now() >= until) {
      for (const auto& [shim, name] : shims) kill(shim, SIGCONT);
      return Error{
          Errc::kTimeout,
          format("process {} ({}) of a step does not end: it waits for a disk or a device", left, command_name(left)),
          {}};
    }
    usleep(2'000);
  }
}

std::vector<std::string> work_below(const std::string& folder) {
  std::vector<std::string> names;
  for (auto& shim : shims_in(folder)) names.push_back(std::move(shim.name));
  std::sort(names.begin(), names.end());
  return names;
}

void kill_work_below(const std::string& folder) {
  for (const auto& shim : shims_in(folder)) kill_descendants(shim.pid);
}

Result<void> end_plain_node(const std::string& node_dir) {
  TRY(end_shims_below(node_dir + "/state/shims/"));
  umount2((node_dir + "/state/places").c_str(),
          MNT_DETACH | UMOUNT_NOFOLLOW);           // with the namespaces of jobs that it keeps
  unlink((node_dir + "/" + kBootIdFile).c_str());  // the next start is a new boot
  return {};
}

std::vector<std::string> node_init_arguments(const NodeInit& init) {
  return {"node-init",  init.name,  init.dir,          init.hosts_file, init.address, std::to_string(init.prefix),
          init.gateway, init.agent, init.library_path, init.pid_max};
}

Result<NodeInit> parse_node_init(const std::vector<std::string>& words) {
  if (words.size() != 10)
    return invalid("node-init is started by lockstep up, not by hand");
  NodeInit init{words[1], words[2], words[3], words[4], 16, words[6], words[7], words[8], {}, words[9]};
  const auto prefix = parse_uint(words[5]);
  if (!prefix || *prefix > 32)
    return invalid("node-init: bad prefix length");
  init.prefix = static_cast<int>(*prefix);
  return init;
}

Result<StartedNode> start_node_init(const std::string& self, const NodeInit& init) {
  int gate[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0)
    return os_error("socketpair");
  auto words = node_init_arguments(init);
  words.insert(words.begin(), self);
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  auto environment = daemon_environment({{kClusterIdVariable, init.cluster_id}});
  std::vector<char*> env;
  for (auto& variable : environment) env.push_back(variable.data());
  env.push_back(nullptr);
  const std::string log_path = init.dir + "/log";
  const auto log = open_log(log_path);
  if (!log) {
    close(gate[0]);
    close(gate[1]);
    return log.error();
  }

  const unsigned long namespaces =
      init.address.empty() ? 0 : CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
  const long pid = syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid < 0) {
    const auto error = os_error("cannot make the namespaces of node " + init.name);
    close(*log);
    close(gate[0]);
    close(gate[1]);
    return error;
  }
  if (pid == 0) {
    leave_the_shell(*log, gate[0]);
    static_assert(kGateFd == 3);
    execve(self.c_str(), argv.data(), env.data());
    _exit(127);
  }
  close(*log);
  close(gate[0]);
  StartedNode started;
  started.gate = gate[1];
  const auto process = identify(static_cast<pid_t>(pid));
  if (!process) {
    close(gate[1]);
    return Error{Errc::kIo, format("node {} ended at once; see {}", init.name, log_path), {}};
  }
  started.process = *process;
  if (const auto noted = write_pid_file(init.dir + "/" + kInitPidFile, started.process); !noted) {
    kill(started.process.pid, SIGKILL);
    close(gate[1]);
    return noted.error();
  }
  return started;
}

void release(const StartedNode& node) {
  const char byte = 1;
  (void)!send(node.gate, &byte, 1, MSG_NOSIGNAL);  // it may have ended; what it said of that is still to be read
}

Result<void> hear(StartedNode& node, Duration patience) {
  std::string said;
  char part[512];
  pollfd wait{node.gate, POLLIN, 0};
  for (const Instant until = boot_now() + patience; boot_now() < until;) {
    const int left = static_cast<int>(std::max<std::int64_t>(1, (until - boot_now()).millis()));
    const ssize_t n = poll(&wait, 1, left) > 0 ? recv(node.gate, part, sizeof part, MSG_DONTWAIT) : -1;
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
      break;
    said.append(part, static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  close(node.gate);
  node.gate = -1;
  return said.empty() ? Result<void>() : Result<void>(Error{Errc::kIo, said, {}});
}

int run_node_init(const NodeInit& init) {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGHUP);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "lockstep-node");
  fcntl(kGateFd, F_SETFD, FD_CLOEXEC);

  const auto ready = init.address.empty() ? Result<void>() : set_up_virtual(init);
  const auto booted = ready ? new_boot_id(init) : ready;
  if (!booted) {
    const std::string& why = booted.error().message;
    fprintf(stderr, "node %s: %s\n", init.name.c_str(), why.c_str());
    (void)!send(kGateFd, why.data(), why.size(), MSG_NOSIGNAL | MSG_DONTWAIT);  // the log may lie on a full disk
    return 1;
  }
  close(kGateFd);

  AgentKeeper(init, watched).run();
  if (init.address.empty()) {
    // Before its children, among which the shims are.
    if (const auto ended = end_shims_below(init.dir + "/state/shims/"); !ended) {
      fprintf(stderr, "node %s: %s\n", init.name.c_str(), ended.error().message.c_str());
      return 1;
    }
    for (int round = 0; round < 50 && !children_of(getpid()).empty(); ++round) {
      kill_descendants(getpid());
      while (waitpid(-1, nullptr, WNOHANG) > 0) {}
      usleep(2'000);
    }
    if (const auto ended = end_plain_node(init.dir); !ended)
      fprintf(stderr, "node %s: %s\n", init.name.c_str(), ended.error().message.c_str());
  }
  return 0;  // in a virtual node the kernel now ends whatever is left in it
}

}  // namespace lockstep
