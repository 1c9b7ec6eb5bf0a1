#include "shim/sandbox_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/plain_file.h"
#include "base/text.h"
#include "model/work_id.h"
#include "shim/container_parent.h"
#include "shim/container_reach.h"
#include "shim/process_tree.h"
#include "shim/sandbox_logic.h"
#include "shim/sandbox_program.h"
#include "shim/sandbox_room.h"
#include "shim/task_inheritance.h"
#include "wire/container_word.h"
#include "wire/front_end_files.h"
#include "wire/sandbox_paths.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kTellEveryUs = 20'000;
constexpr std::size_t kSpecMax = 4 << 20;
constexpr Duration kGraceOtherwise = seconds(30);
constexpr Duration kAgain = seconds(2), kFilesEvery = seconds(20);
constexpr Duration kHookLongest = minutes(10);  // of a first hook, which nothing else bounds

Instant now() { return Instant{boot_clock_us()}; }

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

int complain(const std::string& text) {
  ::fprintf(stderr, "lockstep: error: %s\n", text.c_str());
  return 1;
}

std::string read_spec() {
  std::string text;
  char chunk[64 << 10];
  for (ssize_t n; (n = ::read(kSandboxSpecFd, chunk, sizeof chunk)) > 0 && text.size() <= kSpecMax;)
    text.append(chunk, static_cast<std::size_t>(n));
  ::close(kSandboxSpecFd);
  return text;
}

ExitStatus exit_of(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return {0, WTERMSIG(wait_status), false};
  return {WEXITSTATUS(wait_status), 0, false};
}

// Of the variables that are known only here.
struct NodeFacts {
  std::string name, address;
};

class Keeper {
 public:
  // room: of a sandbox of root's, whose containers runc makes. An Error: it is tried again.
  Keeper(Sandbox sandbox, SandboxSurroundings around, Duration grace)
      : sandbox_(sandbox),
        around_(std::move(around)),
        grace_(grace),
        has_room_(has_room(sandbox)),
        logic_(std::move(sandbox), grace, now()) {
    words_.resize(sandbox_.containers.size());
    facts_ = {variable(kNodeNameVariable), variable(kNodeAddressVariable)};
    if (has_room_)
      hold_for_room("");
    else if (sandbox_.front_end_files)
      logic_.hold({{"", "ContainerCreating", "its files are given on nodes whose agent is root, to work of root's"}},
                  now());
  }

  int run(int signals) {
    tell();
    while (!logic_.over()) {
      prepare();
      logic_.tick(now());
      for (const auto& order : logic_.take_orders()) carry_out(order);
      tell_if_due();
      if (logic_.over())
        break;
      wait_for_something(signals);
      hear(signals);
      reap();
    }
    tell();
    if (room_)
      remove_groups(*room_);
    const ExitStatus result = logic_.result();
    return result.signal != 0 ? 128 + result.signal : result.code;
  }

 private:
  struct ProbeRun {
    std::size_t container = 0, probe = 0;
    std::uint32_t life = 0;
    bool is_hook = false;
  };
  // What a container's parent has told of the life that runs.
  struct Words {
    std::string unread;
    std::optional<ContainerWord> failed, ended;
  };

  int time_to_wait() const {
    Instant due = std::min(logic_.next_timer(), prepare_at_);
    if (changed_)
      due = std::min(due, Instant{told_us_ + kTellEveryUs});
    if (due == kNever)
      return -1;
    return static_cast<int>(std::clamp<std::int64_t>((due - now()).millis() + 1, 0, 3'600'000));
  }

  void wait_for_something(int signals) {
    std::vector<pollfd> waits = {{signals, POLLIN, 0}};
    if (files_fd_ >= 0)
      waits.push_back({files_fd_, POLLIN, 0});
    for (const auto& [fd, container] : beginning_) waits.push_back({fd, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), time_to_wait()) <= 0)
      return;
    for (std::size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents == 0)
        continue;
      else if (waits[i].fd == files_fd_)
        read_files();
      else if (is_contained(beginning_[waits[i].fd]))
        read_words(waits[i].fd);
      else
        begin(waits[i].fd);
  }

  void begin(int fd) {
    const auto it = beginning_.find(fd);
    const std::size_t container = it->second;
    beginning_.erase(it);
    char byte = 0;
    const bool runs = ::read(fd, &byte, 1) == 0;
    ::close(fd);
    if (runs)
      logic_.began(container, now());
    changed_ = true;
  }

  // Of one that has ended nothing begins any more.
  void forget_beginning(std::size_t container) {
    for (auto it = beginning_.begin(); it != beginning_.end();)
      if (it->second == container) {
        ::close(it->first);
        it = beginning_.erase(it);
      } else {
        ++it;
      }
  }

  void hear(int signals) {
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info)
      if (info.ssi_signo != SIGCHLD)
        logic_.told_to_end(now());
    changed_ = true;
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (const auto it = containers_.find(pid); it != containers_.end()) {
        const std::size_t container = it->second;
        containers_.erase(it);
        if (is_contained(container))
          end_contained(container, exit_of(status));
        else
          end_plain(container, exit_of(status));
      } else if (pid == files_pid_) {
        read_files();
        files_pid_ = 0;
      } else if (const auto probe = probes_.find(pid); probe != probes_.end()) {
        const ProbeRun run = probe->second;
        probes_.erase(probe);
        const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (logic_.life(run.container) != run.life)
          continue;
        if (run.is_hook)
          logic_.hooked(run.container, good, now());
        else
          logic_.probed(run.container, run.probe, good, now());
      }
      changed_ = true;
    }
  }

  void end_plain(std::size_t container, const ExitStatus& exit) {
    forget_beginning(container);
    logic_.ended(container, exit, now());
  }

  // --- containers that runc makes ---

  bool is_contained(std::size_t i) const { return has_room_ && !sandbox_.containers[i].container.image.empty(); }

  void read_words(int fd) {
    const std::size_t i = beginning_[fd];
    char chunk[4096];
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n <= 0 && (n == 0 || errno != EINTR)) {
      ::close(fd);
      beginning_.erase(fd);
      return;
    }
    std::string& unread = words_[i].unread;
    unread.append(chunk, static_cast<std::size_t>(n));
    for (std::size_t end; (end = unread.find('\n')) != unread.npos; unread.erase(0, end + 1))
      if (const auto word = decode_container_word(unread.substr(0, end)); word.ok())
        take_word(i, *word);
    changed_ = true;
  }

  void take_word(std::size_t i, const ContainerWord& word) {
    using What = ContainerWord::What;
    switch (word.what) {
      case What::kImage: return logic_.uses_image(i, word.image);
      case What::kBegan: return logic_.began(i, now());
      case What::kCannotYet:
      case What::kFailed: words_[i].failed = word; return;
      case What::kEnded: words_[i].ended = word; return;
    }
  }

  void end_contained(std::size_t i, ExitStatus exit) {
    // What was told last stands in the pipe still.
    for (auto it = beginning_.begin(); it != beginning_.end();)
      if (const int fd = it->first; it->second == i) {
        ++it;
        while (beginning_.contains(fd)) read_words(fd);
      } else {
        ++it;
      }
    const Words words = std::exchange(words_[i], {});
    if (words.failed && words.failed->what == ContainerWord::What::kCannotYet)
      return logic_.cannot_yet(i, words.failed->reason, words.failed->message, now());
    if (words.failed)
      return logic_.ended(i, exit, now(), words.failed->message, words.failed->reason);
    exit.oom = words.ended && words.ended->oom;
    logic_.ended(i, exit, now(), words.ended ? words.ended->message : std::string());
  }

  // A number of a process that its parent knows to be the container's first: it passes the signal on.
  void signal_contained(std::size_t i, int signal) {
    for (const auto& [pid, container] : containers_)
      if (container == i)
        ::kill(pid, signal == SIGKILL ? SIGUSR1 : signal);
  }

  SandboxContainer settled(std::size_t i) const {
    SandboxContainer one = sandbox_.containers[i];
    const auto set = [&one](const std::string& name, const std::string& value) {
      for (auto& [known, old] : one.env)
        if (known == name) {
          old = value;
          return;
        }
      one.env.emplace_back(name, value);
    };
    for (const FrontEndFiles::Variable& variable : variables_)
      if (variable.container == one.name)
        set(variable.name, variable.value);
    using What = PlacedVariable::What;
    for (const PlacedVariable& placed : one.placed_env) switch (placed.what) {
        case What::kTaskAddress: set(placed.name, around_.address.empty() ? facts_.address : around_.address); break;
        case What::kNodeAddress: set(placed.name, facts_.address); break;
        case What::kNodeName: set(placed.name, facts_.name); break;
      }
    return one;
  }

  StartedContainer start_contained(std::size_t i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return {};
    StartedContainer out{fork_child(), ends[0]};
    if (out.pid == 0) {
      ::close(ends[0]);
      Sandbox sandbox = sandbox_;
      sandbox.containers[i] = settled(i);
      const SandboxContainer& one = sandbox.containers[i];
      be_parent_of_contained({sandbox, i, logic_.life(i), *room_, one.std_out, one.std_err}, ends[1]);
    }
    ::close(ends[1]);
    words_[i] = {};
    return out;
  }

  Beside beside(std::size_t i) const {
    if (!is_contained(i) || !room_)
      return {};
    return [this, i](const std::vector<std::string>& argv) {
      become_beside(room_->folder, sandbox_.containers[i].name, logic_.life(i), argv);
    };
  }

  // --- what a sandbox of root's needs before ---

  void hold_for_room(const std::string& message) { logic_.hold({{"", "ContainerCreating", message}}, now()); }

  void prepare() {
    if (!has_room_ || now() < prepare_at_ || files_pid_ != 0)
      return;
    prepare_at_ = kNever;
    if (!room_) {
      auto made = make_room(sandbox_, around_);
      if (!made.ok()) {
        hold_for_room(as_phrase(made.error().message));
        prepare_at_ = now() + kAgain;
        return;
      }
      room_ = std::move(*made);
      if (!sandbox_.front_end_files)
        return logic_.hold({}, now());
    }
    if (sandbox_.front_end_files)
      ask_for_files();
  }

  // A process of its own: the controller may take its time.
  void ask_for_files() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      prepare_at_ = now() + kAgain;
      return;
    }
    files_pid_ = fork_child();
    if (files_pid_ == 0) {
      reset_signals();
      ::dup2(ends[1], 1);
      close_on_exec_from(3);
      const std::string version = version_.empty() ? "-" : version_;
      ::execl(room_->program.c_str(), room_->program.c_str(), "files", room_->folder.c_str(), room_->work.c_str(),
              version.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    files_fd_ = ends[0];
    if (files_pid_ < 0) {
      files_pid_ = 0;
      take_files("error cannot make a process");
    }
  }

  void read_files() {
    char chunk[64 << 10];
    const ssize_t n = files_fd_ < 0 ? -1 : ::read(files_fd_, chunk, sizeof chunk);
    if (n > 0 && files_text_.size() < kFrontEndFilesMax)
      files_text_.append(chunk, static_cast<std::size_t>(n));
    if (n > 0 || files_fd_ < 0 || (n < 0 && errno == EINTR))
      return;
    ::close(std::exchange(files_fd_, -1));
    take_files(std::exchange(files_text_, {}));
  }

  void take_files(const std::string& text) {
    const std::string_view line = trim(text);
    if (line == "same") {
      prepare_at_ = now() + (holds_ ? kAgain : kFilesEvery);
      return;
    }
    const auto files = line.starts_with("error ") || line.empty() ? Result<FrontEndFiles>(unheard(line))
                                                                  : decode_front_end_files(line);
    if (!files.ok()) {
      if (version_.empty())
        hold_for_room(as_phrase(files.error().message));
      prepare_at_ = now() + kAgain;
      return;
    }
    version_ = files->version.empty() ? "-" : files->version;
    variables_ = files->variables;
    std::vector<SandboxLogic::Hold> holds;
    for (const FrontEndFiles::Wait& wait : files->waits)
      holds.push_back(
          {wait.container, wait.reason.empty() ? "ContainerCreating" : wait.reason, as_phrase(wait.message)});
    holds_ = !holds.empty();
    logic_.hold(std::move(holds), now());
    prepare_at_ = now() + (holds_ ? kAgain : kFilesEvery);
    changed_ = true;
  }

  static Error unheard(std::string_view line) {
    return {Errc::kUnavailable,
            line.empty() ? std::string("lockstep-container said nothing") : std::string(line.substr(6)),
            {}};
  }

  // --- orders ---

  void carry_out(const SandboxLogic::Order& order) {
    using enum SandboxLogic::Order::What;
    changed_ = true;
    switch (order.what) {
      case kStart: return start(order.container);
      case kTerm: return signal(order.container, SIGTERM);
      case kKill: return signal(order.container, SIGKILL);
      case kProbe: return probe(order.container, order.probe);
      case kBegunHook: return hook(order.container, sandbox_.containers[order.container].begun, kHookLongest);
      case kEndingHook: return hook(order.container, sandbox_.containers[order.container].ending, grace_);
    }
  }

  void start(std::size_t i) {
    const StartedContainer started =
        is_contained(i) ? start_contained(i) : start_container(sandbox_.containers[i], logic_.life(i), around_);
    if (started.began >= 0 && started.pid > 0)
      beginning_[started.began] = i;
    else if (started.began >= 0)
      ::close(started.began);
    if (started.pid > 0)
      containers_[started.pid] = i;
    else
      logic_.not_started(i, format("cannot make a process: {}", ::strerror(errno)), now());
  }

  // Its own parent ends when nothing of it is left, and is not meant.
  void signal(std::size_t i, int signal) {
    if (is_contained(i))
      return signal_contained(i, signal);
    for (const auto& [pid, container] : containers_)
      if (container == i)
        signal_descendants(pid, signal);
  }

  void probe(std::size_t i, std::size_t p) {
    const pid_t pid =
        start_probe(sandbox_.containers[i], logic_.life(i), sandbox_.containers[i].probes[p], around_, beside(i));
    if (pid > 0)
      probes_[pid] = {i, p, logic_.life(i), false};
    else
      logic_.probed(i, p, false, now());
  }

  void hook(std::size_t i, const ContainerHook& hook, Duration time) {
    const pid_t pid = start_hook(sandbox_.containers[i], logic_.life(i), hook, time, around_, beside(i));
    if (pid > 0)
      probes_[pid] = {i, 0, logic_.life(i), true};
    else
      logic_.hooked(i, false, now());
  }

  void tell_if_due() {
    if (changed_ && boot_clock_us() >= told_us_ + kTellEveryUs)
      tell();
  }

  // The shim always reads. Should it be gone, so are we in a moment.
  void tell() {
    changed_ = false;
    if (told_ == logic_.containers())
      return;
    told_ = logic_.containers();
    told_us_ = boot_clock_us();
    TaskContainers text;
    text.containers = told_;
    const std::string line = encode_containers(text) + "\n";
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t n = ::write(kSandboxStatusFd, line.data() + at, line.size() - at);
      if (n <= 0 && errno != EINTR)
        return;
      at += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
  }

  Sandbox sandbox_;
  SandboxSurroundings around_;
  NodeFacts facts_;
  Duration grace_;
  bool has_room_ = false;
  std::optional<SandboxRoom> room_;
  SandboxLogic logic_;
  std::map<pid_t, std::size_t> containers_;
  std::map<int, std::size_t>
      beginning_;  // by a descriptor: see StartedContainer; of those that runc makes, their words
  std::vector<Words> words_;
  std::map<pid_t, ProbeRun> probes_;
  Instant prepare_at_;  // when the room is made, or the front end is asked; kNever: not before something comes
  pid_t files_pid_ = 0;
  int files_fd_ = -1;
  std::string files_text_, version_;
  std::vector<FrontEndFiles::Variable> variables_;
  bool holds_ = false;  // the front end has something that does not let all start
  std::vector<ContainerStatus> told_;
  std::int64_t told_us_ = 0;
  bool changed_ = false;
};

}  // namespace

int run_sandbox_keeper() {
  auto sandbox = decode_sandbox(read_spec());
  if (!sandbox.ok() || sandbox->containers.empty())
    return complain("the sandbox cannot be read: " + (sandbox.ok() ? "it has no container" : sandbox.error().message));
  ::fcntl(kSandboxStatusFd, F_SETFD, FD_CLOEXEC);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  const int signals = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0)
    return complain(std::string("signalfd: ") + ::strerror(errno));
  const auto grace = parse_uint(variable(kSandboxGraceVariable));
  auto around = take_surroundings(*sandbox);
  if (!around.ok())
    return complain("volumes of the sandbox: " + around.error().message);
  const int code =
      Keeper(std::move(*sandbox), *around,
             grace ? millis(static_cast<std::int64_t>(std::min<std::uint64_t>(*grace, 3'600'000))) : kGraceOtherwise)
          .run(signals);
  remove_volumes(*around);
  return code;
}

}  // namespace lockstep
