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
#include "shim/sandbox_disk.h"
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
constexpr std::size_t kContainersMost = 64;  // with those that are added
constexpr Duration kGraceOtherwise = seconds(30);
constexpr Duration kAgain = seconds(2), kFilesEvery = seconds(20), kDiskEvery = seconds(10);
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
    known_.resize(sandbox_.containers.size());
    disk_at_ = now() + kDiskEvery;
    watches_disk_ = sandbox_.disk_bytes > 0 ||
                    std::any_of(sandbox_.volumes.begin(), sandbox_.volumes.end(), bounds_disk) ||
                    std::any_of(sandbox_.containers.begin(), sandbox_.containers.end(),
                                [](const SandboxContainer& one) { return one.disk_bytes > 0; });
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
      look_at_disk();
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
      leave_room(*room_);
    const ExitStatus result = logic_.result();
    return result.signal != 0 ? 128 + result.signal : result.code;
  }

 private:
  struct ProbeRun {
    std::size_t container = 0, probe = 0;
    std::uint32_t life = 0;
    bool is_hook = false;
    int output = -1;
  };
  // What a container's parent has told of the life that runs.
  struct Words {
    std::string unread;
    std::optional<ContainerWord> failed, ended;
  };

  int time_to_wait() const {
    Instant due = std::min(logic_.next_timer(), prepare_at_);
    if ((watches_disk_ && disk_pid_ == 0) || !again_.empty())
      due = std::min(due, disk_at_);
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
    if (disk_fd_ >= 0)
      waits.push_back({disk_fd_, POLLIN, 0});
    for (const auto& [fd, container] : beginning_) waits.push_back({fd, POLLIN, 0});
    if (::poll(waits.data(), waits.size(), time_to_wait()) <= 0)
      return;
    for (std::size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents == 0)
        continue;
      else if (waits[i].fd == files_fd_)
        read_files();
      else if (waits[i].fd == disk_fd_)
        read_disk();
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
      if (info.ssi_signo == kLookSignal && has_room_)
        prepare_at_ = look_again_ = now();
      else if (info.ssi_signo == kLookSignal)
        continue;
      else if (info.ssi_signo != SIGCHLD)
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
      } else if (pid == disk_pid_) {
        disk_pid_ = 0;
      } else if (const auto resize = resizes_.find(pid); resize != resizes_.end()) {
        resized(resize->second, WIFEXITED(status) && WEXITSTATUS(status) == 0);
        resizes_.erase(resize);
      } else if (const auto probe = probes_.find(pid); probe != probes_.end()) {
        const ProbeRun run = probe->second;
        probes_.erase(probe);
        const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        const std::string output = take_output(run.output);
        if (logic_.life(run.container) != run.life)
          continue;
        if (run.is_hook)
          logic_.hooked(run.container, good, now());
        else if (const Probe& probe = sandbox_.containers[run.container].probes[run.probe];
                 WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
          logic_.probed(run.container, run.probe, false, now(),
                        as_phrase(probe_timeout_words(probe, around_), kProbeOutputMax));
        else
          logic_.probed(run.container, run.probe, good, now(), output);
      }
      changed_ = true;
    }
  }

  // Of a probe that has ended.
  static std::string take_output(int fd) {
    char chunk[kProbeOutputMax];
    const ssize_t n = fd >= 0 ? ::read(fd, chunk, sizeof chunk) : 0;
    if (fd >= 0)
      ::close(fd);
    return n > 0 ? as_phrase({chunk, static_cast<std::size_t>(n)}, kProbeOutputMax) : std::string();
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
      case What::kFetching: return logic_.fetches_image(i);
      case What::kImage:
        known_[i].uid = word.uid;
        known_[i].gid = word.gid;
        known_[i].groups = word.groups;
        return logic_.uses_image(i, word.image, word.fetch_time, word.replaced);
      case What::kBegan:
        known_[i].first = word.pid;
        logic_.began(i, now());
        return resize(i);
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
    known_[i].first = 0;
    const Words words = std::exchange(words_[i], {});
    if (words.failed && words.failed->what == ContainerWord::What::kCannotYet)
      return logic_.cannot_yet(i, words.failed->reason, words.failed->message, now());
    if (words.failed)
      return logic_.ended(i, exit, now(), words.failed->message, words.failed->reason);
    // Who goes on after a child of it was killed, and ends by itself, did not end for want of memory.
    const bool killed = exit.signal == SIGKILL || exit.code == 128 + SIGKILL;
    exit.oom = killed && words.ended && words.ended->oom;
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
      SandboxRoom room = *room_;
      if (one.kind == ContainerKind::kAdded)
        room.process_space = processes_of(one.sees_processes_of);
      be_parent_of_contained({sandbox, i, logic_.life(i), room, one.std_out, one.std_err, logins_, log_folder_},
                             ends[1]);
    }
    ::close(ends[1]);
    words_[i] = {};
    known_[i].has = amounts_of(sandbox_.containers[i]);
    return out;
  }

  // Those of another container, if it runs; else those that all share, if they do.
  std::string processes_of(const std::string& name) const {
    for (std::size_t i = 0; i < sandbox_.containers.size(); ++i)
      if (sandbox_.containers[i].name == name && known_[i].first > 0)
        return format("/proc/{}/ns/pid", known_[i].first);
    return room_->process_space;
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
    prepare_at_ = look_again_ = kNever;
    if (!room_) {
      auto made = make_room(sandbox_, around_);
      if (!made.ok()) {
        hold_for_room(as_phrase(made.error().message));
        prepare_at_ = now() + kAgain;
        return;
      }
      room_ = std::move(*made);
      weigh_task(sandbox_, *room_);
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
      if (look_again_ == kNever)
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
    logins_ = files->logins.empty() ? std::string() : encode_logins(files->logins);
    log_folder_ = files->log_folder;
    take_changes(*files);
    std::vector<SandboxLogic::Hold> holds;
    for (const FrontEndFiles::Wait& wait : files->waits)
      holds.push_back(
          {wait.container, wait.reason.empty() ? "ContainerCreating" : wait.reason, as_phrase(wait.message)});
    holds_ = !holds.empty();
    logic_.hold(std::move(holds), now());
    if (look_again_ == kNever)
      prepare_at_ = now() + (holds_ ? kAgain : kFilesEvery);
    changed_ = true;
  }

  // --- what is to be otherwise than when it was made ---

  struct Amounts {
    std::uint32_t milli_cores = 0, cpu_weight = 0;
    std::uint64_t memory_bytes = 0;
    friend bool operator==(const Amounts&, const Amounts&) = default;
  };
  template <class T>
  static Amounts amounts_of(const T& one) {
    return {one.milli_cores, one.cpu_weight, one.memory_bytes};
  }

  void take_changes(const FrontEndFiles& files) {
    if (files.memory_mb > 0 && files.memory_mb != memory_mb_) {
      if (memory_mb_ > 0)
        change_memory_of_task(room_->group, static_cast<std::uint64_t>(memory_mb_) << 20,
                              static_cast<std::uint64_t>(files.memory_mb) << 20);
      memory_mb_ = files.memory_mb;
    }
    for (const SandboxContainer& one : files.added) {
      const auto known = [&](const SandboxContainer& other) { return other.name == one.name; };
      if (one.kind != ContainerKind::kAdded || !room_ || sandbox_.containers.size() >= kContainersMost ||
          std::any_of(sandbox_.containers.begin(), sandbox_.containers.end(), known))
        continue;
      sandbox_.containers.push_back(one);
      words_.emplace_back();
      known_.emplace_back();
      logic_.add(one, now());
    }
    for (const FrontEndFiles::Change& change : files.changes)
      for (std::size_t i = 0; i < sandbox_.containers.size(); ++i)
        if (sandbox_.containers[i].name == change.container)
          take_change(i, change);
  }

  void take_change(std::size_t i, const FrontEndFiles::Change& change) {
    SandboxContainer& one = sandbox_.containers[i];
    const Amounts before = amounts_of(one), wanted = amounts_of(change);
    const bool other_image = !change.image.empty() && change.image != one.container.image;
    const bool other_cores = before.milli_cores != wanted.milli_cores || before.cpu_weight != wanted.cpu_weight;
    const bool other_memory = before.memory_bytes != wanted.memory_bytes;
    if (other_image)
      one.container.image = change.image;
    one.milli_cores = wanted.milli_cores;
    one.cpu_weight = wanted.cpu_weight;
    one.memory_bytes = wanted.memory_bytes;
    if (other_cores && room_)
      weigh_task(sandbox_, *room_);
    if (other_image || (other_cores && one.anew_for_cores) || (other_memory && one.anew_for_memory))
      logic_.renew(i, now());
    else
      resize(i);
  }

  // Its control group gets what it is to have. What the kernel refuses (less memory than is used) is tried again.
  void resize(std::size_t i) {
    const SandboxContainer& one = sandbox_.containers[i];
    if (!is_contained(i) || known_[i].first == 0 || known_[i].has == amounts_of(one) ||
        std::any_of(resizes_.begin(), resizes_.end(), [i](const auto& other) { return other.second.container == i; }))
      return;
    const pid_t pid = fork_child();
    if (pid == 0) {
      reset_signals();
      become_resize(room_->folder, one, logic_.life(i));
    }
    if (pid > 0)
      resizes_[pid] = {i, logic_.life(i), amounts_of(one)};
  }

  struct Resize {
    std::size_t container = 0;
    std::uint32_t life = 0;
    Amounts amounts;
  };
  void resized(const Resize& done, bool good) {
    if (logic_.life(done.container) != done.life)
      return;
    if (good) {
      known_[done.container].has = done.amounts;
      resize(done.container);
    } else {
      disk_at_ = std::min(disk_at_, now() + kAgain);
      again_.push_back(done.container);
    }
    changed_ = true;
  }

  // --- disk ---

  static bool bounds_disk(const SandboxVolume& volume) {
    return (volume.kind == SandboxVolume::Kind::kDisk && volume.bytes_max > 0) || has_lasting_bound(volume);
  }

  void look_at_disk() {
    if (now() < disk_at_)
      return;
    disk_at_ = now() + kDiskEvery;
    for (const std::size_t i : std::exchange(again_, {})) resize(i);
    if (!watches_disk_ || !room_ || disk_pid_ != 0 || !logic_.why_evicted().empty())
      return;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return;
    disk_pid_ = fork_child();
    if (disk_pid_ == 0) {
      const std::string why = disk_overrun(sandbox_, room_->folder, room_->home);
      [[maybe_unused]] const ssize_t told = ::write(ends[1], why.data(), why.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    disk_fd_ = ends[0];
    disk_pid_ = std::max(disk_pid_, 0);
  }

  void read_disk() {
    char chunk[4096];
    const ssize_t n = ::read(disk_fd_, chunk, sizeof chunk);
    if (n > 0)
      logic_.evict("Evicted: " + as_phrase({chunk, static_cast<std::size_t>(n)}), now());
    if (n > 0 || (n < 0 && errno == EINTR))
      return;
    ::close(std::exchange(disk_fd_, -1));
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
    const StartedProbe started =
        start_probe(sandbox_.containers[i], logic_.life(i), sandbox_.containers[i].probes[p], around_, beside(i));
    if (started.pid > 0) {
      probes_[started.pid] = {i, p, logic_.life(i), false, started.output};
      return;
    }
    (void)take_output(started.output);
    logic_.probed(i, p, false, now(), "cannot make a process");
  }

  void hook(std::size_t i, const ContainerHook& hook, Duration time) {
    const pid_t pid = start_hook(sandbox_.containers[i], logic_.life(i), hook, time, around_, beside(i));
    if (pid > 0)
      probes_[pid] = {i, 0, logic_.life(i), true, -1};
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
    std::vector<ContainerStatus> words = logic_.containers();
    for (std::size_t i = 0; i < words.size(); ++i)
      if (sandbox_.front_end_files && words[i].state == ContainerState::kRunning)
        words[i].message = encode_container_notes(logic_.notes(i));
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i].state != ContainerState::kWaiting && is_contained(i)) {
        words[i].milli_cores = known_[i].has.milli_cores;
        words[i].cpu_weight = known_[i].has.cpu_weight;
        words[i].memory_bytes = known_[i].has.memory_bytes;
        words[i].uid = known_[i].uid;
        words[i].gid = known_[i].gid;
        words[i].groups = known_[i].groups;
      }
    if (told_ == words && told_why_ == logic_.why_evicted())
      return;
    told_ = std::move(words);
    told_why_ = logic_.why_evicted();
    told_us_ = boot_clock_us();
    TaskContainers text;
    text.containers = told_;
    text.reason = told_why_;
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
  // Of the life that runs, or ran last.
  struct Known {
    pid_t first = 0;  // its first process; 0: it does not run
    Amounts has;
    std::optional<std::uint32_t> uid, gid;
    std::vector<std::uint32_t> groups;
  };
  std::vector<Known> known_;
  std::map<pid_t, Resize> resizes_;
  std::vector<std::size_t> again_;  // whose amounts the kernel has refused
  std::map<pid_t, ProbeRun> probes_;
  Instant prepare_at_;  // when the room is made, or the front end is asked; kNever: not before something comes
  pid_t files_pid_ = 0;
  int files_fd_ = -1;
  std::string files_text_, version_;
  Instant look_again_ = kNever;  // somebody said meanwhile that there is something new
  std::vector<FrontEndFiles::Variable> variables_;
  std::string logins_;          // encode_logins; "" = none
  std::string log_folder_;      // as the front end has told it
  std::int64_t memory_mb_ = 0;  // that the front end has told last
  bool watches_disk_ = false;
  Instant disk_at_ = kNever;
  pid_t disk_pid_ = 0;
  int disk_fd_ = -1;
  std::string told_why_;
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
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, kLookSignal}) ::sigaddset(&watched, signal);
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
