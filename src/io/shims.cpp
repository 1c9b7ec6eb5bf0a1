#include "io/shims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/interval_set.h"
#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/descriptor.h"
#include "io/gpu_numbers.h"
#include "io/mig_capabilities.h"
#include "io/shim_maker.h"
#include "model/hook_part.h"
#include "shim/nursery.h"
#include "shim/orphans.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"
#include "shim/sandbox_network.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr Duration kLeftoverEvery = millis(5);
constexpr int kCleanLooks = 2;
constexpr Duration kReapAgain = millis(2);
constexpr Duration kConnectAgain = millis(20);
constexpr Duration kNurseryPatience = seconds(3);  // between two looks at one that does not say whom it has made
constexpr Duration kStopPatience = seconds(1);     // behind kill_wait, until a shim is asked whether it is alive
constexpr Duration kAnswerPatience = seconds(2);   // between two looks at one that was asked
constexpr Duration kAskAgain = seconds(10);        // one that is alive, and waits for tasks that cannot be killed
constexpr Duration kGroupAgain = millis(50);       // between two tries to remove a group that holds processes still
constexpr int kGroupTries = 200;
constexpr std::size_t kLineMax = 1 << 20;

std::string read_whole(int fd) {
  struct stat stat {};
  std::string bytes;
  if (::fstat(fd, &stat) == 0)
    bytes.resize(static_cast<std::size_t>(stat.st_size));
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

// The folder by descriptor, because a socket's path may have 107 bytes only.
Result<Fd> connect_in(int shims_fd, const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = format("/proc/self/fd/{}/{}/{}", shims_fd, name, kShimSocketFile);
  if (!fd.valid() || path.size() >= sizeof address.sun_path)
    return failed_call("socket");
  path.copy(address.sun_path, path.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED)
      return not_found("no such step here any more");
    return failed_call("connect to the shim of " + name);
  }
  return fd;
}

void remove_folder(int shims_fd, const std::string& name) {
  for (std::string_view file : {kShimRecordFile, kShimSocketFile, kShimScriptFile})
    ::unlinkat(shims_fd, format("{}/{}", name, file).c_str(), 0);
  if (::unlinkat(shims_fd, name.c_str(), AT_REMOVEDIR) == 0 || errno != ENOTEMPTY)
    return;
  // Output that was spilled by a shim that was killed.
  const int fd = ::openat(shims_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (DIR* dir = fd < 0 ? nullptr : ::fdopendir(fd)) {
    while (const dirent* file = ::readdir(dir))
      if (file->d_name[0] != '.')
        ::unlinkat(fd, file->d_name, 0);
    ::closedir(dir);
  }
  ::unlinkat(shims_fd, name.c_str(), AT_REMOVEDIR);
}

Result<std::vector<WorkId>> list_folders(int shims_fd) {
  const int fd = ::openat(shims_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!dir)
    return failed_call("folder of shims");
  std::vector<WorkId> found;
  while (const dirent* file = ::readdir(dir))
    if (const auto key = parse_work_id(file->d_name))
      found.push_back(*key);
  ::closedir(dir);
  std::sort(found.begin(), found.end());
  return found;
}

class RealShims final : public Shims {
 public:
  RealShims(EventLoop& loop, Fd shims_fd, Fd null_fd, std::string shim_path, const std::string& spill_dir,
            Isolation isolation)
      : loop_(loop),
        isolation_(std::move(isolation)),
        shims_fd_(std::move(shims_fd)),
        maker_(shims_fd_.get(), std::move(null_fd), std::move(shim_path), spill_dir) {}
  ~RealShims() override {
    for (auto& [key, shim] : shims_)
      if (shim.control.valid())
        loop_.unwatch(shim.control.get());
    for (TimerId timer : timers_) loop_.cancel(timer);
  }

  void on_event(std::function<void(ShimEvent)> callback) override { tell_ = std::move(callback); }
  void start(ShimStart start) override;
  void signal(const WorkId& key, std::int32_t signal, Reach reach) override {
    command(key, format("{} {}\n", reach == Reach::kFirst ? "signal-first" : "signal", signal));
  }
  void stop(const WorkId& key, Duration kill_wait, StopWhy why) override {
    const Duration wait = bounded_kill_wait(kill_wait);
    command(key, format("stop {} {}\n", wait.millis(), static_cast<int>(why)));
    ask_later(key, wait + kStopPatience);
  }
  void notice(const WorkId& key, Duration killed_in, StopWhy why) override {
    command(key, format("notice {} {}\n", std::max<std::int64_t>(0, killed_in.millis()), static_cast<int>(why)));
  }
  void pause(const WorkId& key, bool paused, std::uint32_t number) override {
    command(key, format("{} {}\n", paused ? "pause" : "resume", number));
  }
  void forget(const WorkId& key) override;
  Result<std::vector<WorkId>> recover() override;
  void reap_orphans() override;

 private:
  struct Entry {
    std::string name;
    pid_t pid = 0;   // when it is our child; a nursery tells it a moment later
    pid_t peer = 0;  // when an agent before us started it, once it is connected
    Fd control;
    std::string unread;   // an unfinished line
    Instant at;           // when happened what it says next; 0 = it does not say
    WorkUse use;          // of the end that it says next
    std::string waiting;  // commands for a shim that is not connected yet
    bool told_start = false, told_end = false;
    bool forgotten = false;
    bool asked = false;               // whether it is alive, and has not said a word since
    std::optional<TimerId> question;  // the next step of asking whether it is alive; each shim has one at most
    Instant ask_at;                   // of `question`, when it has not been asked yet
    bool killed = false;              // what it left is being looked for
    int clean_looks = 0;              // in a row, that found nothing
  };

  Result<void> isolate(ShimStart& start);
  void remove_group(const WorkId& key, int tries);
  Result<void> spawn(const ShimStart& start, Entry& entry);
  void look_at_nursery(const WorkId& key, bool again);
  void ask_later(const WorkId& key, Duration delay);
  void ask_if_alive(const WorkId& key);
  void look_at_asked(const WorkId& key, bool again);
  void command(const WorkId& key, const std::string& line);
  void send(Entry& entry, const std::string& bytes);
  void watch(const WorkId& key, Entry& entry);
  void readable(const WorkId& key);
  void line(const WorkId& key, Entry& entry, const std::string& text);
  void connection_ended(const WorkId& key);
  void look_at(const WorkId& key);
  std::set<pid_t> live_but(const Entry* entry) const;
  std::size_t kill_leftovers(const Entry& entry, const ShimRecords& records);
  bool is_gone(const Entry& entry) const;
  bool others_known(const Entry& entry) const;
  void dead(const WorkId& key, Entry& entry, const ShimRecords& records);
  void tell_containers(const WorkId& key, std::string_view text);
  void end(const WorkId& key, Entry& entry, std::vector<TaskResult> results);
  void fail(const WorkId& key, Entry& entry, std::string why);
  void remove(const WorkId& key);
  void reap(pid_t pid);
  void tell(ShimEvent event) {
    if (tell_)
      tell_(std::move(event));
  }
  std::string address_folder() const { return format("/proc/self/fd/{}/../{}", shims_fd_.get(), kAddressFolder); }
  TimerId later(Duration delay, std::function<void()> task);

  EventLoop& loop_;
  Isolation isolation_;
  Fd shims_fd_;
  ShimMaker maker_;
  std::function<void(ShimEvent)> tell_;
  std::map<WorkId, Entry> shims_;
  std::set<pid_t> ending_;    // shims that have closed their connection
  std::set<TimerId> timers_;  // cancelled with us
};

TimerId RealShims::later(Duration delay, std::function<void()> task) {
  auto id = std::make_shared<TimerId>(0);  // shared: the task must know the number it gets only after it is made
  *id = loop_.after(delay, [this, id, task = std::move(task)] {
    timers_.erase(*id);
    task();
  });
  timers_.insert(*id);
  return *id;
}

// The groups that its tasks enter by themselves. The site's programs are the node's: a job's limits are none of theirs.
Result<void> RealShims::isolate(ShimStart& start) {
  if (!isolation_.processors)
    start.launch.cores_by_rank.clear();  // the numbers mean other processors, or none
  if (!isolation_.groups || (is_hook(start.key) && !is_staging(start.key)))
    return {};
  GroupLimits limits;
  limits.memory_mb = start.memory_mb;
  limits.processes = isolation_.processes;
  limits.part_memory_mb = start.launch.memory_mb;
  for (const ShimDevice& gpu : start.gpus)
    if (!gpu.given)
      if (const auto number = device_number(format("/dev/nvidia{}", gpu.minor)); number.ok())
        limits.devices.denied.push_back(*number);
  if (start.capabilities)
    if (const auto major = device_major("nvidia-caps"); major.ok())
      limits.devices.families.push_back({*major, *start.capabilities, all_mig_capabilities()});
  if (!limits.devices.denied.empty()) {
    renumber_gpus(start.launch.process.env, start.gpus);
    for (auto& env : start.launch.env_by_rank) renumber_gpus(env, start.gpus);
  }
  if (const auto cores = IntervalSet::parse(start.cores))
    limits.cores = static_cast<std::uint32_t>(cores->size());
  if (isolation_.processors)
    limits.cpus = start.cores;
  start.enter = TRY(isolation_.groups->make(start.key, limits));
  start.oom_file = isolation_.groups->oom_file(start.key);
  start.freeze_file = isolation_.groups->freeze_file(start.key);
  return {};
}

void RealShims::remove_group(const WorkId& key, int tries) {
  if (!isolation_.groups || isolation_.groups->remove(key))
    return;
  if (tries > 0 && !shims_.contains(key)) {
    isolation_.groups->kill(key);
    (void)isolation_.groups->freeze(key, false);
    later(kGroupAgain, [this, key, tries] { remove_group(key, tries - 1); });
  }
}

void RealShims::start(ShimStart start) {
  const auto [at, fresh] = shims_.try_emplace(start.key);
  if (!fresh)
    return;
  Entry& entry = at->second;
  entry.name = text_of(start.key);
  auto spawned = isolate(start);
  if (spawned.ok())
    spawned = spawn(start, entry);
  if (!spawned.ok()) {
    later({}, [this, key = start.key, why = spawned.error().message] {
      if (const auto it = shims_.find(key); it != shims_.end())
        fail(key, it->second, why);
    });
    return;
  }
  watch(start.key, entry);
}

Result<void> RealShims::spawn(const ShimStart& start, Entry& entry) {
  // Open to passers-by: the script inside belongs to the job's user, everything else to us.
  if (::mkdirat(shims_fd_.get(), entry.name.c_str(), 0711) != 0)
    return failed_call("folder of the step " + entry.name);
  const std::string record_path = format("{}/{}", entry.name, kShimRecordFile);
  Fd record = lifted(::openat(shims_fd_.get(), record_path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string bytes = encode_launch_record(start);
  if (!record.valid() || ::flock(record.get(), LOCK_EX | LOCK_NB) != 0)
    return failed_call(record_path);
  if (const ssize_t n = ::pwrite(record.get(), bytes.data(), bytes.size(), 0); n != static_cast<ssize_t>(bytes.size()))
    return failed_call(record_path, n < 0 ? errno : ENOSPC);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return failed_call("socket pair");
  Fd theirs = lifted(ends[1]);
  entry.control = Fd(ends[0]);

  auto pid = maker_.make(entry.name, record.get(), theirs.get());
  if (!pid.ok()) {
    entry.control.reset();
    return pid.error();
  }
  entry.pid = *pid;
  if (entry.pid == 0)
    later(kNurseryPatience, [this, key = start.key] { look_at_nursery(key, true); });
  return {};
}

// A nursery that stands still would hold up every launch here. Killed, it lets go of what it was asked for, which then
// shows as a shim that was killed. Looked at twice, because after a pause of the machine a timer comes before all else.
void RealShims::look_at_nursery(const WorkId& key, bool again) {
  const auto it = shims_.find(key);
  if (it == shims_.end() || it->second.pid != 0 || it->second.peer != 0 || !it->second.control.valid())
    return;
  if (again) {
    later(kNurseryPatience, [this, key] { look_at_nursery(key, false); });
    return;
  }
  log_line(LogLevel::kWarning, "lockstep-agent: the process that makes shims does not answer; it is started anew");
  const pid_t nursery = maker_.nursery();
  maker_.end_nursery();
  if (nursery > 0)
    reap(nursery);
}

// A shim that was told to end its tasks has ended them by now, or says that it is alive. One that stands still, because
// somebody stopped it, would keep its tasks and its job for ever.
void RealShims::ask_if_alive(const WorkId& key) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  Entry& entry = it->second;
  entry.question.reset();
  if (entry.told_end || !entry.control.valid() || entry.asked)
    return;
  entry.asked = true;
  send(entry, std::string(kShimHello));
  entry.question = later(kAnswerPatience, [this, key] { look_at_asked(key, true); });
}

// A stop is said again as long as its work lives: it may bring the next question forward, and begins no other.
void RealShims::ask_later(const WorkId& key, Duration delay) {
  const auto it = shims_.find(key);
  if (it == shims_.end() || it->second.told_end)
    return;
  Entry& entry = it->second;
  const Instant at{boot_clock_us() + delay.us};
  if (entry.question && (entry.asked || entry.ask_at <= at))
    return;
  if (entry.question) {
    loop_.cancel(*entry.question);
    timers_.erase(*entry.question);
  }
  entry.ask_at = at;
  entry.question = later(delay, [this, key] { ask_if_alive(key); });
}

// Ended, it leaves its tasks to us, as any shim that was killed. Looked at twice, as the nursery is.
void RealShims::look_at_asked(const WorkId& key, bool again) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  Entry& entry = it->second;
  entry.question.reset();
  if (entry.told_end || !entry.control.valid())
    return;
  if (!entry.asked)
    return ask_later(key, kAskAgain);
  if (again) {
    entry.question = later(kAnswerPatience, [this, key] { look_at_asked(key, false); });
    return;
  }
  const pid_t pid = entry.pid > 0 ? entry.pid : entry.peer;
  if (pid <= 0)
    return;
  log_line(LogLevel::kWarning,
           format("lockstep-agent: the shim of {} (process {}) stands still: it is killed, and its tasks with it",
                  entry.name, pid));
  ::kill(pid, SIGKILL);
}

void RealShims::watch(const WorkId& key, Entry& entry) {
  loop_.watch(entry.control.get(), [this, key] { readable(key); });
  if (!entry.waiting.empty())
    send(entry, std::exchange(entry.waiting, {}));
}

void RealShims::command(const WorkId& key, const std::string& line) {
  const auto it = shims_.find(key);
  if (it == shims_.end() || it->second.told_end)
    return;
  if (it->second.control.valid())
    send(it->second, line);
  else
    it->second.waiting += line;
}

void RealShims::send(Entry& entry, const std::string& bytes) {
  // A few dozen bytes to a shim that always reads. Should it be gone, the end of the connection follows.
  if (::send(entry.control.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    return;
}

void RealShims::readable(const WorkId& key) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  char chunk[16 << 10];
  const ssize_t n = ::recv(it->second.control.get(), chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0 || it->second.unread.size() > kLineMax)
    return connection_ended(key);
  it->second.asked = false;
  std::string bytes = std::move(it->second.unread);
  bytes.append(chunk, static_cast<std::size_t>(n));
  std::size_t from = 0;
  for (std::size_t end; (end = bytes.find('\n', from)) != bytes.npos; from = end + 1) {
    const auto entry = shims_.find(key);  // an event's listener may have made us forget it
    if (entry == shims_.end())
      return;
    line(key, entry->second, bytes.substr(from, end - from));
  }
  if (const auto entry = shims_.find(key); entry != shims_.end())
    entry->second.unread = bytes.substr(from);
}

void RealShims::line(const WorkId& key, Entry& entry, const std::string& text) {
  if (text.starts_with(kNurseryPid) && entry.pid == 0 && entry.peer == 0) {
    entry.pid = static_cast<pid_t>(parse_uint(std::string_view(text).substr(kNurseryPid.size())).value_or(0));
  } else if (text.starts_with("at ")) {
    entry.at = Instant{static_cast<std::int64_t>(parse_uint(std::string_view(text).substr(3)).value_or(0))};
  } else if (text == "started" && !entry.told_start) {
    entry.told_start = true;
    tell({ShimEvent::What::kStarted, key, {}, {}, 0, std::exchange(entry.at, {})});
  } else if (const bool paused = text.starts_with("paused "); paused || text.starts_with("resumed ")) {
    if (const auto number = parse_uint(std::string_view(text).substr(paused ? 7 : 8)))
      tell({paused ? ShimEvent::What::kPaused : ShimEvent::What::kResumed,
            key,
            {},
            {},
            static_cast<std::uint32_t>(*number)});
  } else if (text == "checkpoint") {
    tell({.what = ShimEvent::What::kCheckpoint, .key = key, .at = std::exchange(entry.at, {})});
  } else if (text.starts_with("containers ")) {
    tell_containers(key, std::string_view(text).substr(11));
  } else if (text.starts_with("used ")) {
    entry.use = parse_work_use(std::string_view(text).substr(5)).value_or(WorkUse{});
  } else if (text.starts_with("failed ")) {
    fail(key, entry, text.substr(7));
  } else if (text.starts_with("ended ")) {
    if (auto results = decode_results_text(std::string_view(text).substr(6)))
      end(key, entry, std::move(*results));
  }
}

void RealShims::tell_containers(const WorkId& key, std::string_view text) {
  auto told = decode_containers(text);
  if (!told.ok())
    return;
  ShimEvent event{.what = ShimEvent::What::kContainers, .key = key};
  event.address = std::move(told->address);
  event.containers = std::move(told->containers);
  event.why = std::move(told->reason);
  tell(std::move(event));
}

void RealShims::end(const WorkId& key, Entry& entry, std::vector<TaskResult> results) {
  if (!std::exchange(entry.told_end, true))
    tell({ShimEvent::What::kEnded, key, {}, std::move(results), 0, entry.at, entry.use});
}

void RealShims::fail(const WorkId& key, Entry& entry, std::string why) {
  if (!std::exchange(entry.told_end, true))
    tell({ShimEvent::What::kFailed, key, std::move(why), {}});
}

void RealShims::connection_ended(const WorkId& key) {
  Entry& entry = shims_.at(key);
  loop_.unwatch(entry.control.get());
  entry.control.reset();
  entry.unread.clear();
  entry.asked = false;
  if (entry.pid > 0)
    reap(entry.pid);
  if (entry.told_end) {
    entry.pid = entry.peer = 0;
    if (entry.forgotten)
      remove(key);
    return;
  }
  look_at(key);
}

// A shim we are not connected to: alive, ended or killed? The lock on its record tells.
void RealShims::look_at(const WorkId& key) {
  const auto it = shims_.find(key);
  if (it == shims_.end() || it->second.control.valid() || it->second.told_end)
    return;
  Entry& entry = it->second;
  const std::string path = format("{}/{}", entry.name, kShimRecordFile);
  Fd record(::openat(shims_fd_.get(), path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!record.valid())
    return fail(key, entry, "the step was never started: the agent ended in between");
  if (::flock(record.get(), LOCK_EX | LOCK_NB) == 0) {
    const auto records = decode_shim_records(read_whole(record.get()));
    if (!records.ok())
      return fail(key, entry, records.error().message);
    return dead(key, entry, *records);
  }
  if (auto control = connect_in(shims_fd_.get(), entry.name); control.ok()) {
    entry.control = std::move(*control);
    ucred who{};
    socklen_t size = sizeof who;
    if (entry.pid == 0 && ::getsockopt(entry.control.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0)
      entry.peer = who.pid;
    send(entry, std::string(kShimHello));
    return watch(key, entry);
  }
  later(kConnectAgain, [this, key] { look_at(key); });  // alive, and about to make its socket
}

std::set<pid_t> RealShims::live_but(const Entry* entry) const {
  std::set<pid_t> live = ending_;
  live.insert(maker_.nursery());
  for (const auto& [key, other] : shims_)
    for (const pid_t pid : {other.pid, other.peer})
      if (pid > 0 && &other != entry)
        live.insert(pid);
  return live;
}

void RealShims::reap_orphans() { lockstep::reap_orphans(live_but(nullptr)); }

// Its tasks have us as their parent now, or somebody above us; their sessions help where neither can be told apart.
std::size_t RealShims::kill_leftovers(const Entry& entry, const ShimRecords& records) {
  const std::set<pid_t> live = live_but(&entry);
  const std::int64_t since = records.pids.empty() ? 0 : records.pids.front().started_us;
  std::size_t in_group = 0;
  if (const auto key = parse_work_id(entry.name); key && isolation_.groups) {
    in_group = isolation_.groups->kill(*key);
    (void)isolation_.groups->freeze(*key, false);  // what is frozen ends when it is thawed
  }
  return in_group + kill_orphans(live, since) + kill_sessions(records.pids);
}

// Its end hands its tasks on, and comes a moment after its descriptors are closed.
bool RealShims::is_gone(const Entry& entry) const {
  return entry.pid > 0 ? !ending_.contains(entry.pid) : entry.peer == 0 || is_dead(entry.peer);
}

// A shim that is alive and not connected would look like an orphan.
bool RealShims::others_known(const Entry& entry) const {
  return std::all_of(shims_.begin(), shims_.end(), [&entry](const auto& other) {
    const Entry& e = other.second;
    return &e == &entry || e.told_end || e.killed || e.pid > 0 || e.peer > 0;
  });
}

void RealShims::dead(const WorkId& key, Entry& entry, const ShimRecords& records) {
  entry.at = Instant{records.results ? records.ended_us : 0};
  entry.use = records.use;
  if (records.results) {
    if (!records.containers.empty())
      tell_containers(key, records.containers);
    if (const auto still = shims_.find(key); still != shims_.end())
      end(key, still->second, *records.results);
    return;
  }
  entry.killed = true;
  if (!is_gone(entry) || !others_known(entry) || kill_leftovers(entry, records) > 0)
    entry.clean_looks = 0;
  else
    ++entry.clean_looks;
  if (entry.clean_looks < kCleanLooks) {
    later(kLeftoverEvery, [this, key] { look_at(key); });
    return;
  }
  if (!records.launch || records.pids.empty())
    return fail(key, entry, "the step's shim was killed before it could say that its tasks had started");
  std::vector<TaskResult> results;
  for (std::uint32_t rank : records.launch->launch.ranks) results.push_back({rank, {0, SIGKILL, false}});
  end(key, entry, std::move(results));
}

void RealShims::forget(const WorkId& key) {
  const auto it = shims_.find(key);
  if (it == shims_.end())
    return;
  it->second.forgotten = true;
  if (!it->second.control.valid())
    return remove(key);
  send(it->second, "forget\n");
}

void RealShims::remove(const WorkId& key) {
  const auto it = shims_.find(key);
  const std::string name = it->second.name;
  shims_.erase(it);
  if (task_of(key))
    release_address_of(address_folder(), name);
  remove_folder(shims_fd_.get(), name);
  remove_group(key, kGroupTries);
}

void RealShims::reap(pid_t pid) {
  ending_.insert(pid);
  if (::waitpid(pid, nullptr, WNOHANG) == 0)
    later(kReapAgain, [this, pid] { reap(pid); });
  else
    ending_.erase(pid);
}

Result<std::vector<WorkId>> RealShims::recover() {
  std::vector<WorkId> found = TRY(list_folders(shims_fd_.get()));
  std::erase_if(found, [this](const WorkId& key) { return shims_.contains(key); });
  for (const WorkId& key : found) {
    shims_[key].name = text_of(key);
    later({}, [this, key] { look_at(key); });
  }
  std::vector<std::string> lives;
  for (const auto& [key, entry] : shims_) lives.push_back(entry.name);
  release_addresses_but(address_folder(), lives);
  if (isolation_.groups)
    for (const WorkId& key : isolation_.groups->parts())
      if (!shims_.contains(key))
        remove_group(key, kGroupTries);
  return found;
}

Result<Fd> open_shims_folder(const std::string& dir) {
  const std::string path = dir + "/shims";
  if (::mkdir(path.c_str(), 0711) != 0 && errno != EEXIST)
    return failed_call(path);
  Fd fd = lifted(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid())
    return failed_call(path);
  return fd;
}

}  // namespace

Result<std::unique_ptr<Shims>> make_shims(EventLoop& loop, const std::string& dir, const std::string& shim_path,
                                          const std::string& spill_dir, Isolation isolation) {
  char program[PATH_MAX];  // absolute: a shim starts in its own folder
  if (!::realpath(shim_path.c_str(), program) || ::access(program, X_OK) != 0)
    return failed_call(shim_path);
  Fd shims_fd = TRY(open_shims_folder(dir));
  Fd null_fd = lifted(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid())
    return failed_call("/dev/null");
  adopt_orphans();
  return std::unique_ptr<Shims>(std::make_unique<RealShims>(loop, std::move(shims_fd), std::move(null_fd), program,
                                                            spill_dir, std::move(isolation)));
}

bool has_shims(const std::string& dir) {
  const Fd fd(::open((dir + "/shims").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid())
    return false;
  const auto found = list_folders(fd.get());
  return found.ok() && !found->empty();
}

Result<int> connect_to_shim(const std::string& dir, const WorkId& key) {
  const Fd shims_fd = TRY(open_shims_folder(dir));
  Fd fd = TRY(connect_in(shims_fd.get(), text_of(key)));
  return fd.release();
}

bool shim_folder_exists(const std::string& dir, const WorkId& key) {
  return ::access(format("{}/shims/{}", dir, text_of(key)).c_str(), F_OK) == 0;
}

Result<void> remove_shims_of_older_boots(const std::string& dir) {
  const Fd shims_fd = TRY(open_shims_folder(dir));
  for (const WorkId& key : TRY(list_folders(shims_fd.get()))) remove_folder(shims_fd.get(), text_of(key));
  ::unlink(format("{}/{}", dir, kLeaseFile).c_str());
  return {};
}

Result<Instant> read_lease(const std::string& dir) {
  const std::string path = format("{}/{}", dir, kLeaseFile);
  const std::string text = TRY(read_plain(path));
  const auto at = text.size() == 21 && text.ends_with('\n') ? parse_uint(text.substr(0, 20)) : std::nullopt;
  if (!at)
    return Error{Errc::kCorrupt, path + " is damaged", {}};
  return std::min(Instant{static_cast<std::int64_t>(*at)}, Instant{boot_clock_us()});
}

Result<void> write_lease(const std::string& dir, Instant renewed) {
  // Fixed width, so that a reader never sees digits of two values of different length.
  const std::string text = format("{:020}\n", renewed.us);
  const std::string path = format("{}/{}", dir, kLeaseFile);
  const Fd fd(TRY(open_plain(path, O_WRONLY | O_CREAT)));
  if (::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return failed_call(path);
  return {};
}

}  // namespace lockstep
