#include "gpu_parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/interval_set.h"
#include "base/log_line.h"
#include "base/text.h"
#include "io/hook_programs.h"
#include "io/local/folder.h"
#include "io/mig_capabilities.h"
#include "model/hook_part.h"

namespace lockstep {
namespace {

constexpr Duration kRemovalMost = minutes(10);
constexpr const char* kMadeFile = "mig_slices";
constexpr const char* kMpsProgram = "nvidia-cuda-mps-control";
constexpr const char* kPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=";
constexpr std::string_view kVisible[] = {"CUDA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="};
constexpr Duration kDaemonLookEvery = millis(10);
constexpr int kLooksMost = 500;  // for the daemon's socket
constexpr Duration kDestroyAgainSoon = millis(20), kDestroyAgain = seconds(1);
constexpr Duration kDaemonKillWait = seconds(1);

WorkId daemon_of(const std::pair<JobId, AttemptNo>& key) { return {key.first, key.second, StepPart{kMpsStep}}; }

// In the agent's own PATH: the program is the node's, whatever the job's says.
std::string find_program(const char* name) {
  const char* path = ::getenv("PATH");
  for (const std::string& folder : split(path ? path : "/usr/bin:/bin", ':')) {
    const std::string file = folder + "/" + name;
    if (folder.starts_with('/') && ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return {};
}

// Of the job's user alone, in a folder of ours: nobody else can put anything in its place.
Result<void> make_folder(const std::string& parent, const std::string& path, std::uint32_t uid, std::uint32_t gid) {
  if ((::mkdir(parent.c_str(), 0711) != 0 && errno != EEXIST) || ::chmod(parent.c_str(), 0711) != 0)
    return Error{Errc::kIo, format("{} cannot be made: {}", parent, ::strerrordesc_np(errno)), {}};
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{Errc::kIo, format("{} cannot be made: {}", path, ::strerrordesc_np(errno)), {}};
  if (::geteuid() == 0 && ::lchown(path.c_str(), uid, gid) != 0)
    return Error{Errc::kIo, format("{} cannot be given to uid {}: {}", path, uid, ::strerrordesc_np(errno)), {}};
  return {};
}

std::string uuid_of(const std::vector<Device>& devices, std::uint32_t index) {
  return index < devices.size() ? devices[index].uuid : std::string();
}

bool is_among(const std::vector<MigSlice>& slices, const DevicePart& part) {
  return std::any_of(slices.begin(), slices.end(), [&part](const MigSlice& slice) {
    return part.device == slice.device && part.mig == slice.profile && part.slice == slice.start;
  });
}

// "MIG:0:1g.10gb:4", as the controller names a slice that has no UUID yet.
std::string word_of(const MigSlice& slice) { return format("MIG:{}:{}:{}", slice.device, slice.profile, slice.start); }

bool has_variable(const std::vector<std::string>& env, std::string_view name) {
  return std::any_of(env.begin(), env.end(), [name](const std::string& line) { return line.starts_with(name); });
}

template <class Change>
void change_visible(std::vector<std::string>& env, const Change& change) {
  for (std::string& line : env)
    for (const std::string_view name : kVisible) {
      if (!line.starts_with(name))
        continue;
      std::vector<std::string> words = split(std::string_view(line).substr(name.size()), ',');
      for (std::string& word : words) change(word);
      line = std::string(name) + join(words, ",");
    }
}

}  // namespace

GpuParts::GpuParts(EventLoop& loop, const AgentFile& settings, Shims& shims)
    : loop_(loop), settings_(settings), shims_(shims), removal_(loop) {}

GpuParts::~GpuParts() {
  for (const TimerId timer : timers_) loop_.cancel(timer);
}

void GpuParts::later(Duration delay, std::function<void()> task) {
  auto id = std::make_shared<TimerId>(0);  // shared: the task must know the number it gets only after it is made
  *id = loop_.after(delay, [this, id, task = std::move(task)] {
    std::erase(timers_, *id);
    task();
  });
  timers_.push_back(*id);
}

std::string GpuParts::folder_of(const Key& key) const {
  return format("{}/mps/{}-{}", settings_.run_dir, key.first.value, key.second);
}

// Its user may have put links there, and as much as he liked: a process of its own removes it, which follows none.
void GpuParts::remove_folder(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0)
    return;
  unwanted_.insert(path);
  remove_unwanted();
}

void GpuParts::remove_unwanted() {
  if (unwanted_.empty() || removal_.is_out())
    return;
  std::vector<std::string> words = {"/bin/rm", "-rf", "--one-file-system", "--"};
  words.insert(words.end(), unwanted_.begin(), unwanted_.end());
  unwanted_.clear();
  const auto begun = removal_.start(
      [words]() -> Result<void> {
        const auto end = TRY(run_program_within(words, {}, kRemovalMost));
        return end.ok() ? Result<void>() : Result<void>(Error{Errc::kIo, end.said, {}});
      },
      [this](const Result<void>& done) {
        if (!done)
          log_line(LogLevel::kWarning, "lockstep-agent: folders of MPS daemons: " + done.error().message);
        remove_unwanted();
      });
  if (!begun)
    log_line(LogLevel::kWarning, "lockstep-agent: folders of MPS daemons stay: " + begun.error().message);
}

// Of daemons that ended while there was no agent.
void GpuParts::remove_old_folders() {
  const auto parent = Folder::open(settings_.run_dir + "/mps");
  const auto names = parent ? parent->names() : Result<std::vector<std::string>>(parent.error());
  if (!names)
    return;
  std::set<std::string> kept;
  for (const auto& [key, shared] : shared_) kept.insert(folder_of(key));
  for (const std::string& name : *names)
    if (const std::string path = format("{}/mps/{}", settings_.run_dir, name); !kept.contains(path))
      remove_folder(path);
}

std::string GpuParts::made_line(const DevicePart& part) const {
  return format("{} {} {}", uuid_of(devices_, part.device), part.mig, part.slice);
}

void GpuParts::read_made() {
  const auto folder = Folder::open(settings_.state_dir);
  const auto text = folder ? folder->read(kMadeFile) : Result<std::string>(folder.error());
  if (!text)
    return;
  for (const std::string& line : split(*text, '\n'))
    if (!line.empty())
      made_.insert(line);
}

// Without it a slice outlives an agent that ends in the middle: it is said, and the job starts all the same.
void GpuParts::write_made() const {
  const auto folder = Folder::open(settings_.state_dir);
  std::string text;
  for (const std::string& line : made_) text += line + "\n";
  const auto written = folder ? folder->keep(kMadeFile, text, 0600) : Result<void>(folder.error());
  if (!written)
    log_line(LogLevel::kWarning, "lockstep-agent: " + written.error().message);
}

void GpuParts::recover(const std::vector<PartsHeld>& held, const std::vector<Device>& devices,
                       const std::vector<WorkId>& survivors) {
  devices_ = devices;
  std::vector<DevicePart> owned;
  bool all_known = true;
  for (const PartsHeld& attempt : held) {
    all_known = all_known && attempt.known;
    Shared& shared = shared_[{attempt.job, attempt.attempt}];
    shared.parts = attempt.parts;
    owned.insert(owned.end(), attempt.parts.begin(), attempt.parts.end());
    const WorkId daemon = daemon_of({attempt.job, attempt.attempt});
    if (std::find(survivors.begin(), survivors.end(), daemon) != survivors.end())
      shared.daemon = Daemon::kServing;
  }
  for (const WorkId& work : survivors)
    if (is_mps_daemon(work) && !shared_.contains({work.job, work.attempt})) {
      shared_[{work.job, work.attempt}].daemon = Daemon::kEnding;
      shims_.stop(work, kDaemonKillWait);
    }
  remove_old_folders();
  if (std::none_of(devices.begin(), devices.end(), [](const Device& device) { return device.mig; }))
    return;
  auto slices = MigSlices::open();
  if (!slices)
    return log_line(LogLevel::kWarning, "lockstep-agent: MIG: " + slices.error().message);
  for (auto& [key, shared] : shared_) {
    auto there = slices->create(shared.parts);
    if (there)
      shared.slices = std::move(*there);
    else
      log_line(LogLevel::kWarning, format("lockstep-agent: job {}: {}", key.first.value, there.error().message));
  }
  read_made();
  // Of an attempt that the journal has lost nobody knows which slices it uses.
  std::vector<DevicePart> left;
  if (const auto all = slices->list(); all && all_known)
    for (const MigSlice& slice : *all) {
      const bool ours = std::any_of(owned.begin(), owned.end(), [&slice](const DevicePart& part) {
        return part.device == slice.device && part.mig == slice.profile && part.slice == slice.start;
      });
      const DevicePart part{static_cast<std::uint16_t>(slice.device), 0, 0, slice.profile, slice.start};
      if (!ours && made_.contains(made_line(part)))
        left.push_back(part);
    }
  for (const DevicePart& part : left)
    log_line(LogLevel::kInfo, format("lockstep-agent: MIG slice {} at {} of GPU {} is no job's and is destroyed",
                                     part.mig, part.slice, part.device));
  destroy(std::move(left));
}

Result<void> GpuParts::prepare(const LaunchAttempt& launch, const std::vector<Device>& devices) {
  devices_ = devices;
  const Key key{launch.job, launch.attempt};
  if (launch.parts.empty() || shared_.contains(key))
    return {};
  Shared shared;
  shared.parts = launch.parts;
  shared.has_script = launch.has_script;
  const auto is_slice = [](const DevicePart& part) { return !part.mig.empty(); };
  if (std::any_of(launch.parts.begin(), launch.parts.end(), is_slice)) {
    destroy_now();
    auto slices = MigSlices::open();
    const auto there = slices ? slices->list() : Result<std::vector<MigSlice>>(slices.error());
    if (!there)
      return Error{there.error().code, "MIG: " + there.error().message, {}};
    const std::set<std::string> before = made_;
    for (const DevicePart& part : launch.parts)
      if (is_slice(part) && !is_among(*there, part))
        made_.insert(made_line(part));
    write_made();
    auto made = slices->create(launch.parts);
    if (!made) {
      made_ = before;
      write_made();
      return Error{made.error().code, "MIG: " + made.error().message, {}};
    }
    shared.slices = std::move(*made);
    for (const MigSlice& slice : shared.slices)
      log_line(LogLevel::kInfo,
               format("lockstep-agent: job={} attempt={} has MIG slice {} at {} of GPU {}: {}", launch.job.value,
                      launch.attempt, slice.profile, slice.start, slice.device, slice.uuid));
  }
  const bool is_share = !std::all_of(launch.parts.begin(), launch.parts.end(), is_slice);
  Shared& kept = shared_[key] = std::move(shared);
  if (is_share && has_variable(launch.process.env, kPercentage))
    if (const auto started = start_daemon(key, launch, kept); !started)
      without_daemon(key, started.error().message);
  return {};
}

Result<void> GpuParts::start_daemon(const Key& key, const LaunchAttempt& launch, Shared& shared) {
  const std::string program = find_program(kMpsProgram);
  if (program.empty())
    return not_found(format("{} is not in the PATH of node {}'s agent", kMpsProgram, settings_.node));
  const std::string folder = folder_of(key);
  TRY(make_folder(settings_.run_dir + "/mps", folder, launch.process.uid, launch.process.gid));
  std::vector<std::string> uuids;
  IntervalSet cores;
  ShimStart start;
  for (std::uint32_t i = 0; i < devices_.size(); ++i) {
    if (launch.devices.test(i))
      uuids.push_back(uuid_of(devices_, i));
    start.gpus.push_back({devices_[i].minor, launch.devices.test(i)});
  }
  launch.cores.for_each([&cores](std::uint32_t core) { cores.insert(core); });
  start.key = daemon_of(key);
  start.fence_after = launch.fence_after;
  start.no_new_privs = true;
  start.memory_mb = launch.memory_mb;
  start.cores = cores.text();
  start.launch.ranks = {0};
  start.launch.to_client = false;
  start.launch.kill_wait = kDaemonKillWait;
  ProcessSpec& process = start.launch.process;
  process.uid = launch.process.uid;
  process.gid = launch.process.gid;
  process.groups = launch.process.groups;
  process.umask = 077;
  process.work_dir = folder;
  process.argv = {program, "-f"};  // in the foreground, so that it is owned as a task is
  process.std_out = process.std_err = folder + "/output.log";
  process.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "CUDA_VISIBLE_DEVICES=" + join(uuids, ","), "CUDA_MPS_PIPE_DIRECTORY=" + folder,
                 "CUDA_MPS_LOG_DIRECTORY=" + folder};
  shared.daemon = Daemon::kStarting;
  log_line(LogLevel::kInfo,
           format("lockstep-agent: job={} attempt={} starts {}", launch.job.value, launch.attempt, program));
  shims_.start(std::move(start));
  later(kDaemonLookEvery, [this, key] { look_at_daemon(key); });
  return {};
}

void GpuParts::look_at_daemon(const Key& key) {
  const auto it = shared_.find(key);
  if (it == shared_.end() || it->second.daemon != Daemon::kStarting)
    return;
  struct stat found {};
  if (::lstat((folder_of(key) + "/control").c_str(), &found) == 0) {
    it->second.daemon = Daemon::kServing;
    return go_on(key);
  }
  if (++it->second.looks < kLooksMost)
    return later(kDaemonLookEvery, [this, key] { look_at_daemon(key); });
  it->second.daemon = Daemon::kEnding;
  shims_.stop(daemon_of(key), Duration{});
  without_daemon(key, format("{} of node {} does not serve", kMpsProgram, settings_.node));
}

void GpuParts::without_daemon(const Key& key, const std::string& why) {
  shared_.at(key).why_no_daemon = why;
  log_line(LogLevel::kWarning,
           format("lockstep-agent: job {} shares its GPU by time slicing alone: {}", key.first.value, why));
  go_on(key);
}

void GpuParts::go_on(const Key& key) {
  Shared& shared = shared_.at(key);
  for (ShimStart& start : std::exchange(shared.waiting, {})) {
    complete(start, shared);
    shims_.start(std::move(start));
  }
}

void GpuParts::start(ShimStart start) {
  const bool has_slices =
      std::any_of(devices_.begin(), devices_.end(), [](const Device& device) { return device.mig; });
  if (has_slices)
    start.capabilities.emplace();
  const auto it = shared_.find({start.key.job, start.key.attempt});
  if (it == shared_.end())
    return shims_.start(std::move(start));
  if (it->second.daemon == Daemon::kStarting) {
    it->second.waiting.push_back(std::move(start));
    return;
  }
  complete(start, it->second);
  shims_.start(std::move(start));
}

void GpuParts::start_now(const WorkId& work) {
  const auto it = shared_.find({work.job, work.attempt});
  if (it == shared_.end())
    return;
  auto& waiting = it->second.waiting;
  const auto at = std::find_if(waiting.begin(), waiting.end(), [&work](const ShimStart& s) { return s.key == work; });
  if (at == waiting.end())
    return;
  ShimStart start = std::move(*at);
  waiting.erase(at);
  complete(start, it->second);
  shims_.start(std::move(start));
}

void GpuParts::put_slices(std::vector<std::string>& env, const Shared& shared) const {
  change_visible(env, [&shared](std::string& word) {
    for (const MigSlice& slice : shared.slices)
      if (word == word_of(slice))
        word = slice.uuid;
  });
}

// By UUID: the daemon numbers those that it serves, and the node those that it has.
void GpuParts::put_daemon(std::vector<std::string>& env, const Key& key) const {
  change_visible(env, [this](std::string& word) {
    const auto number = parse_uint(word);
    std::uint64_t gpu = 0;
    for (const Device& device : devices_)
      if (number && device.kind == "gpu" && gpu++ == *number) {
        word = device.uuid;
        return;
      }
  });
  env.push_back("CUDA_MPS_PIPE_DIRECTORY=" + folder_of(key));
  env.push_back("CUDA_MPS_LOG_DIRECTORY=" + folder_of(key));
}

void GpuParts::complete(ShimStart& start, const Shared& shared) const {
  const Key key{start.key.job, start.key.attempt};
  TaskProcesses& launch = start.launch;
  std::vector<std::vector<std::string>*> all = {&launch.process.env};
  for (auto& env : launch.env_by_rank) all.push_back(&env);
  for (auto* env : all) put_slices(*env, shared);
  // A task of the cluster's has all: nobody else has told it. A step without a word of GPUs is to have none.
  const bool is_task = std::holds_alternative<TaskPart>(start.key.part);
  if (is_task && !shared.slices.empty() && !has_variable(launch.process.env, kVisible[0])) {
    std::vector<std::string> uuids;
    for (const MigSlice& slice : shared.slices) uuids.push_back(slice.uuid);
    launch.process.env.push_back(std::string(kVisible[0]) + join(uuids, ","));
  }
  if (!shared.slices.empty())
    start.capabilities = mig_capabilities(devices_, shared.slices);
  if (shared.daemon == Daemon::kServing) {
    for (auto* env : all) put_daemon(*env, key);
  } else if (!shared.why_no_daemon.empty()) {
    std::erase_if(launch.process.env, [](const std::string& line) { return line.starts_with("CUDA_MPS_"); });
    if (is_script(start.key) || !shared.has_script)
      start.note = format("lockstep: this job shares its GPU by time slicing alone: {}", shared.why_no_daemon);
  }
}

bool GpuParts::hear(const ShimEvent& event) {
  if (!is_mps_daemon(event.key))
    return false;
  const Key key{event.key.job, event.key.attempt};
  if (event.what != ShimEvent::What::kEnded && event.what != ShimEvent::What::kFailed)
    return true;
  shims_.forget(event.key);
  remove_folder(folder_of(key));
  const auto it = shared_.find(key);
  if (it == shared_.end())
    return true;
  const Daemon was = std::exchange(it->second.daemon, Daemon::kNone);
  const std::string why = event.what == ShimEvent::What::kFailed
                              ? format("{} could not be started: {}", kMpsProgram, event.why)
                              : format("{} ended by itself", kMpsProgram);
  if (was == Daemon::kStarting)
    without_daemon(key, format("{} on node {}", why, settings_.node));
  else if (was == Daemon::kServing)
    log_line(LogLevel::kWarning, format("lockstep-agent: job {}: {}", key.first.value, why));
  return true;
}

void GpuParts::settle(const std::vector<PartsHeld>& held) {
  if (shared_.empty())
    return;
  std::set<Key> keys;
  for (const PartsHeld& attempt : held) keys.insert({attempt.job, attempt.attempt});
  for (auto it = shared_.begin(); it != shared_.end();) {
    if (keys.contains(it->first)) {
      ++it;
      continue;
    }
    end(it->first, it->second);
    it = shared_.erase(it);
  }
}

void GpuParts::end(const Key& key, Shared& shared) {
  if (shared.daemon == Daemon::kStarting || shared.daemon == Daemon::kServing)
    shims_.stop(daemon_of(key), kDaemonKillWait);
  else
    remove_folder(folder_of(key));
  std::vector<DevicePart> slices;
  for (const MigSlice& slice : shared.slices)
    if (DevicePart part{static_cast<std::uint16_t>(slice.device), 0, 0, slice.profile, slice.start};
        made_.contains(made_line(part)))
      slices.push_back(std::move(part));
  destroy(std::move(slices));
}

// One by one, so that one that is used still holds up no other.
void GpuParts::destroy(std::vector<DevicePart> parts) {
  if (parts.empty())
    return;
  auto slices = MigSlices::open();
  for (DevicePart& part : parts) {
    const auto gone = slices ? slices->destroy({part}) : Result<void>(slices.error());
    if (gone) {
      made_.erase(made_line(part));
      continue;
    }
    if (!destroys_again_)
      log_line(LogLevel::kWarning, format("lockstep-agent: {}; it is tried again", gone.error().message));
    undestroyed_.push_back(std::move(part));
  }
  write_made();
  if (!undestroyed_.empty() && !std::exchange(destroys_again_, true)) {
    destroy_again_in_ = kDestroyAgainSoon;
    later(destroy_again_in_, [this] { destroy_again(); });
  }
}

// What has just ended may be a client of the driver's for a moment more.
void GpuParts::destroy_now() {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries && !undestroyed_.empty(); ++i) {
    if (i > 0)
      ::usleep(5'000);
    destroy(take_undestroyed());
  }
}

// What a job was given meanwhile is its own.
std::vector<DevicePart> GpuParts::take_undestroyed() {
  std::vector<DevicePart> parts = std::exchange(undestroyed_, {});
  std::erase_if(parts, [this](const DevicePart& part) {
    return std::any_of(shared_.begin(), shared_.end(), [&part](const auto& entry) {
      return std::find(entry.second.parts.begin(), entry.second.parts.end(), part) != entry.second.parts.end();
    });
  });
  return parts;
}

void GpuParts::destroy_again() {
  destroy(take_undestroyed());
  destroys_again_ = !undestroyed_.empty();
  destroy_again_in_ = std::min(destroy_again_in_ * 2, kDestroyAgain);
  if (destroys_again_)
    later(destroy_again_in_, [this] { destroy_again(); });
}

}  // namespace lockstep
