#include "shim/sandbox_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "model/work_id.h"
#include "shim/grpc_probe.h"
#include "shim/http_look.h"
#include "shim/process_tree.h"
#include "shim/sandbox_keeper.h"
#include "shim/sandbox_room.h"
#include "shim/task_inheritance.h"
#include "wire/container_text.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr const char* kHomeVariable = "LOCKSTEP_CONTAINER_HOME";
constexpr const char* kWorkVariable = "LOCKSTEP_CONTAINER_WORK";
constexpr const char* kContainerVariable = "LOCKSTEP_CONTAINER";
constexpr const char* kBeganVariable = "LOCKSTEP_CONTAINER_BEGAN_FD";  // lockstep-container hands nothing on of it
constexpr int kFirstFreeFd = 3;

std::string own_variable(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

bool is_keepers(std::string_view line) {
  for (const std::string_view name :
       {std::string_view(kHomeVariable), std::string_view(kWorkVariable), std::string_view(kContainerVariable),
        std::string_view(kSandboxGraceVariable), std::string_view(kSandboxProgramVariable),
        std::string_view(kNodeNameVariable), std::string_view(kNodeAddressVariable)})
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=')
      return true;
  return false;
}

void set_variable(std::vector<std::string>& env, const std::string& name, const std::string& value) {
  std::erase_if(env, [&](const std::string& line) {
    return line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name);
  });
  env.push_back(name + "=" + value);
}

Result<void> make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST)
    return {};
  return os_error(path);
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

std::string value_of(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& line : env)
    if (line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name))
      return line.substr(name.size() + 1);
  return {};
}

// began: where a byte says that the program could not be reached; -1 = nobody listens. handed_on: the program tells.
[[noreturn]] void become(ProgramPlan plan, int began = -1, bool handed_on = false) {
  reset_signals();
  if (!plan.work_dir.empty() && ::chdir(plan.work_dir.c_str()) != 0)
    ::fprintf(stderr, "lockstep: error: couldn't chdir to `%s': %s\n", plan.work_dir.c_str(), ::strerror(errno));
  ::setenv("PATH", value_of(plan.env, "PATH").c_str(), 1);  // by which execvpe looks
  const auto argv = pointers_to(plan.argv), env = pointers_to(plan.env);
  close_on_exec_from(kFirstFreeFd);
  if (handed_on)
    ::fcntl(began, F_SETFD, 0);
  ::execvpe(argv[0], argv.data(), env.data());
  const int failed = errno;
  ::fprintf(stderr, "lockstep: error: execve(): %s: %s\n", argv[0], ::strerror(failed));
  ::fflush(stderr);
  if (began >= 0 && ::write(began, "-", 1) != 1)
    ::_exit(255);
  ::_exit(failed < 256 ? failed : 255);
}

void redirect(int target, const std::string& path) {
  if (path.empty())
    return;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
  if (fd < 0) {
    ::fprintf(stderr, "lockstep: error: Could not open output file %s: %s\n", path.c_str(), ::strerror(errno));
    ::_exit(1);
  }
  ::dup2(fd, target);
  ::close(fd);
}

int wait_for(pid_t pid) {
  int status = 0;
  for (;;) {
    int one = 0;
    const pid_t dead = ::waitpid(-1, &one, 0);
    if (dead == pid)
      return one;
    if (dead < 0 && errno != EINTR)
      return status;
  }
}

// What a program beside writes: its first bytes are kept, and all of it is read, so that it never waits for a reader.
class BesideOutput {
 public:
  BesideOutput() {
    if (::pipe2(ends_, O_CLOEXEC) == 0)
      ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  int theirs() const { return ends_[1]; }
  void read() {
    char chunk[16 << 10];
    for (ssize_t n; ends_[0] >= 0 && (n = ::read(ends_[0], chunk, sizeof chunk)) > 0;)
      kept_.append(chunk, std::min(static_cast<std::size_t>(n), kProbeOutputMax - kept_.size()));
  }
  const std::string& kept() const { return kept_; }

 private:
  int ends_[2] = {-1, -1};
  std::string kept_;
};

// How it ended. Nothing: it took longer.
std::optional<int> wait_within(pid_t pid, Duration time, BesideOutput& output) {
  constexpr useconds_t kLookEvery = 5'000;
  const std::int64_t until = boot_clock_us() + std::max<std::int64_t>(time.us, 1000);
  for (;;) {
    int status = 0;
    const pid_t dead = ::waitpid(-1, &status, WNOHANG);
    output.read();
    if (dead == pid)
      return status;
    if (boot_clock_us() >= until)
      return std::nullopt;
    if (dead <= 0)
      ::usleep(kLookEvery);
  }
}

// Into a pipe that is empty, which so much fits.
void write_words(int fd, std::string_view words) {
  if (fd >= 0) [[maybe_unused]]
    const ssize_t n = ::write(fd, words.data(), std::min(words.size(), kProbeOutputMax));
}

// What a container leaves behind ends with it.
void end_what_is_left() {
  while (any_lives_below(::getpid())) {
    signal_descendants(::getpid(), SIGKILL);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
    ::usleep(1000);
  }
}

[[noreturn]] void end_as(int wait_status) {
  if (WIFEXITED(wait_status))
    ::_exit(WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  for (const int other : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
    ::signal(other, SIG_IGN);  // what was sent to all waits here
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::_exit(128 + signal);
}

// Signals stay blocked here: what ends the container is for its processes.
[[noreturn]] void be_parent_of(const SandboxContainer& container, std::uint32_t life, const SandboxSurroundings& around,
                               int began) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "sandbox");
  redirect(1, container.std_out);
  redirect(2, container.std_err.empty() ? container.std_out : container.std_err);
  ProgramPlan plan = plan_program(container, life, container.argv, around);
  const ProgramPlan first = plan;
  const bool in_image = !container.container.image.empty();
  if (in_image)
    plan.env.push_back(format("{}={}", kBeganVariable, began));
  const pid_t pid = fork_child();
  if (pid == 0)
    become(std::move(plan), began, in_image);
  ::close(began);
  const int status = pid < 0 ? W_EXITCODE(1, 0) : wait_for(pid);
  end_what_is_left();
  if (in_image) {
    if (const pid_t last = fork_child(); last == 0)
      become({{around.program, "finish"}, first.env, first.work_dir});
    else if (last > 0)
      wait_for(last);
    end_what_is_left();
  }
  end_as(status);
}

// -1: nobody listens there, and errno says why.
int connect_to(const std::string& host, std::uint16_t port) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  errno = EHOSTUNREACH;
  if (fd < 0 || ::inet_pton(AF_INET, host == "localhost" ? "127.0.0.1" : host.c_str(), &to.sin_addr) != 1 ||
      ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    return -1;
  return fd;
}

std::string host_or_own(const std::string& host, const std::string& own) {
  return !host.empty() ? host : own.empty() ? "127.0.0.1" : own;
}

// Over TLS the agent's program asks, in our place: `lockstep-agent https-look`, with the socket as its input and what
// is to be asked as its descriptor 3. Returns where it cannot.
void become_https_look(int fd, const HttpAsk& asked, const std::string& programs) {
  constexpr int kAskFd = 3;
  const std::string text = http_text(asked), program = programs + "/lockstep-agent";
  const int held = ::memfd_create("ask", MFD_CLOEXEC);
  if (held < 0 || ::write(held, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(held, 0, SEEK_SET) != 0)
    return;
  // Neither of them is 3 when it is put there.
  const int socket = ::fcntl(fd, F_DUPFD_CLOEXEC, 10), ask = ::fcntl(held, F_DUPFD_CLOEXEC, 10);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, 1);
  ::dup2(null, 2);
  ::dup2(socket, 0);
  ::dup2(ask, kAskFd);
  close_on_exec_from(kAskFd + 1);
  ::execl(program.c_str(), program.c_str(), "https-look", nullptr);
}

std::string dial_words(const std::string& host, std::uint16_t port, std::string_view why) {
  return format("dial tcp {}:{}: {}", host, port, why);
}

std::string ask_words(const HttpAsk& ask, bool tls, std::string_view why) {
  return format("{} \"{}://{}:{}{}{}\": {}", ask.post_data.empty() ? "Get" : "Post", tls ? "https" : "http", ask.host,
                ask.port, ask.path.starts_with('/') ? "" : "/", ask.path, why);
}

// In small letters, as programs write that are no C.
std::string connect_words() {
  std::string why = ::strerror(errno);
  if (!why.empty() && why[0] >= 'A' && why[0] <= 'Z')
    why[0] = static_cast<char>(why[0] - 'A' + 'a');
  return "connect: " + why;
}

// Led on to another place of the same host, it asks there. tell: where what went wrong is said; -1 = nowhere.
bool asks_well(int fd, HttpAsk asked, bool tls, const std::string& programs, int tell = -1) {
  for (int led = 0; fd >= 0 && led <= kHttpRedirectsMax; ++led) {
    if (tls) {
      write_words(tell, ask_words(asked, tls, "it was not answered, or not well"));  // if it comes to that
      become_https_look(fd, asked, programs);
      return false;
    }
    const auto answer = http_answer(fd, asked);
    ::close(fd);
    if (!answer) {
      write_words(tell, ask_words(asked, tls, "EOF"));
      return false;
    }
    const auto next = led_on(asked, *answer);
    if (!next) {
      const bool well = answer->code >= 200 && answer->code < 400;
      if (!well)
        write_words(tell, format("HTTP probe failed with statuscode: {}", answer->code));
      return well;
    }
    asked = next->ask;
    tls = next->tls;
    fd = connect_to(asked.host, asked.port);
  }
  write_words(tell, fd < 0 ? ask_words(asked, tls, dial_words(asked.host, asked.port, connect_words()))
                           : ask_words(asked, tls, format("stopped after {} redirects", kHttpRedirectsMax)));
  return false;
}

std::string folder_of(const std::string& program) { return program.substr(0, program.rfind('/')); }

HttpAsk ask_of(const Probe& probe, const std::string& host) {
  return {host, probe.path, probe.post_data, probe.port, &probe.headers};
}

bool network_probe_passes(const Probe& probe, const SandboxSurroundings& around, int tell) {
  const std::string host = host_or_own(probe.host, around.address);
  const int fd = connect_to(host, probe.port);
  if (probe.how == Probe::How::kHttp)
    return asks_well(fd, ask_of(probe, host), probe.tls, folder_of(around.program), tell);
  if (fd < 0)
    write_words(tell, dial_words(host, probe.port, connect_words()));
  if (fd < 0 || probe.how == Probe::How::kTcp)
    return fd >= 0;
  const bool serves = grpc_is_serving(fd, format("{}:{}", host, probe.port), probe.service);
  if (!serves)
    write_words(tell, format("service unhealthy: {}:{} does not answer SERVING", host, probe.port));
  return serves;
}

// It ends at the latest then: the signal is not the child's to ignore before it becomes a program.
void end_after(Duration time) {
  const std::int64_t us = std::max<std::int64_t>(time.us, 1000);
  itimerval timer{};
  timer.it_value.tv_sec = us / 1'000'000;
  timer.it_value.tv_usec = us % 1'000'000;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// A program beside the container's own, for that long. tell: where is said what it wrote, if it failed; -1 = nowhere.
[[noreturn]] void run_beside(const SandboxContainer& container, std::uint32_t life,
                             const std::vector<std::string>& argv, Duration time, const SandboxSurroundings& around,
                             const Beside& beside, int tell = -1) {
  if (argv.empty())
    ::_exit(1);
  BesideOutput output;
  if (output.theirs() >= 0) {
    ::dup2(output.theirs(), 1);
    ::dup2(output.theirs(), 2);
  }
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t program = fork_child();
  if (program == 0) {
    if (beside) {
      reset_signals();
      beside(argv);
      ::_exit(1);
    }
    become(plan_program(container, life, argv, around));
  }
  const std::optional<int> status =
      program < 0 ? std::optional<int>(W_EXITCODE(1, 0)) : wait_within(program, time, output);
  end_what_is_left();
  output.read();
  const int code = status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 1;
  if (!status)
    write_words(tell, format("command timed out: \"{}\" timed out after {} ms", join(argv, " "), time.millis()));
  else if (code != 0)
    write_words(tell, output.kept());
  ::_exit(code);
}

}  // namespace

// A child that ends with this process, and nobody else's signals.
pid_t fork_child() {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
      ::_exit(1);
    ::setsid();
  }
  return pid;
}

Result<SandboxSurroundings> take_surroundings(const Sandbox& sandbox) {
  SandboxSurroundings out;
  out.program = own_variable(kSandboxProgramVariable);
  out.home = own_variable(kHomeVariable);
  out.work = own_variable(kWorkVariable);
  out.address = own_variable(kTaskAddressVariable);
  for (char** line = environ; *line; ++line)
    if (!is_keepers(*line))
      out.env.emplace_back(*line);
  if (sandbox.volumes.empty() || has_room(sandbox))
    return out;
  const auto work = parse_work_id(out.work);
  if (!work || !out.home.starts_with('/'))
    return invalid("the shim named no folder for them");
  std::string folder = out.home;
  for (const std::string& part :
       {std::string("jobs"), format("{}", work->job.value), std::string("volumes"), out.work}) {
    folder += "/" + part;
    TRY(make_folder(folder));
  }
  for (const SandboxVolume& volume : sandbox.volumes) TRY(make_folder(folder + "/" + volume.name));
  out.volumes = folder;
  set_variable(out.env, kVolumesVariable, folder);
  return out;
}

// Out of the way: what is in them goes later, as of any container (container/step_files).
void remove_volumes(const SandboxSurroundings& around) {
  if (around.volumes.empty())
    return;
  const std::string trash = around.home + "/trash";
  (void)make_folder(trash);
  ::rename(around.volumes.c_str(), format("{}/{}.volumes", trash, around.work).c_str());
}

std::string work_of(const SandboxSurroundings& around, const std::string& container, std::uint32_t life) {
  return format("{}+{}.{}", around.work, container, life);
}

ProgramPlan plan_program(const SandboxContainer& container, std::uint32_t life, const std::vector<std::string>& argv,
                         const SandboxSurroundings& around) {
  ProgramPlan plan;
  plan.env = around.env;
  for (const auto& [name, value] : container.env) set_variable(plan.env, name, value);
  if (container.container.image.empty()) {
    plan.argv = argv;
    plan.work_dir = container.container.work_dir;
    return plan;
  }
  Container inside = container.container;
  for (Mount& mount : inside.mounts)
    if (mount.source.starts_with(kVolumePrefix))
      mount.source = around.volumes + "/" + mount.source.substr(kVolumePrefix.size());
  plan.argv = {around.program, "enter", "--"};
  plan.argv.insert(plan.argv.end(), argv.begin(), argv.end());
  plan.env.push_back(format("{}={}", kContainerVariable, encode_container(inside)));
  plan.env.push_back(format("{}={}", kHomeVariable, around.home));
  plan.env.push_back(format("{}={}", kWorkVariable, work_of(around, container.name, life)));
  return plan;
}

StartedContainer start_container(const SandboxContainer& container, std::uint32_t life,
                                 const SandboxSurroundings& around) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return {};
  StartedContainer out{fork_child(), ends[0]};
  if (out.pid == 0) {
    ::close(ends[0]);
    be_parent_of(container, life, around, ends[1]);
  }
  ::close(ends[1]);
  return out;
}

StartedProbe start_probe(const SandboxContainer& container, std::uint32_t life, const Probe& probe,
                         const SandboxSurroundings& around, const Beside& beside) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    ends[0] = ends[1] = -1;
  StartedProbe out{fork_child(), ends[0]};
  if (out.pid == 0) {
    reset_signals();
    end_after(probe.timeout);
    if (probe.how != Probe::How::kExec)
      ::_exit(network_probe_passes(probe, around, ends[1]) ? 0 : 1);
    run_beside(container, life, probe.argv, probe.timeout, around, beside, ends[1]);
  }
  if (ends[1] >= 0)
    ::close(ends[1]);
  return out;
}

std::string probe_timeout_words(const Probe& probe, const SandboxSurroundings& around) {
  const std::string host = host_or_own(probe.host, around.address);
  if (probe.how == Probe::How::kHttp)
    return ask_words(ask_of(probe, host), probe.tls,
                     "context deadline exceeded (Client.Timeout exceeded while awaiting headers)");
  return dial_words(host, probe.port, "i/o timeout");
}

pid_t start_hook(const SandboxContainer& container, std::uint32_t life, const ContainerHook& hook, Duration time,
                 const SandboxSurroundings& around, const Beside& beside) {
  const pid_t pid = fork_child();
  if (pid != 0)
    return pid;
  reset_signals();
  end_after(time);
  using How = ContainerHook::How;
  switch (hook.how) {
    case How::kNone: ::_exit(0);
    case How::kSleep: {
      const itimerval none{};
      ::setitimer(ITIMER_REAL, &none, nullptr);
      const Duration rest = std::min(hook.sleep, time);
      ::sleep(static_cast<unsigned>(rest.seconds()));
      ::_exit(0);
    }
    case How::kHttp: {
      const std::string host = host_or_own(hook.host, around.address);
      const int fd = connect_to(host, hook.port);
      const HttpAsk ask{host, hook.path, {}, hook.port, &hook.headers};
      ::_exit(fd >= 0 && asks_well(fd, ask, hook.tls, folder_of(around.program)) ? 0 : 1);
    }
    case How::kExec: run_beside(container, life, hook.argv, time, around, beside);
  }
  ::_exit(1);
}

}  // namespace lockstep
