#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/check.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "model/containers_variable.h"
#include "model/hook_part.h"
#include "ports/lingering_step.h"
#include "ports/step_signal.h"
#include "shim/checkpoint_watch.h"
#include "shim/container_task.h"
#include "shim/control_group.h"
#include "shim/descriptor_room.h"
#include "shim/job_place.h"
#include "shim/last_words.h"
#include "shim/pmi_link.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"
#include "shim/relay.h"
#include "shim/sandbox_room.h"
#include "shim/sandbox_task.h"
#include "shim/stage_program.h"
#include "shim/task_inheritance.h"
#include "shim/task_starter.h"
#include "shim/told_lines.h"
#include "shim/wait_set.h"
#include "wire/container_word.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr std::int64_t kKeeperLastWordsUs = 3'000'000;
constexpr std::int64_t kSecondUs = 1'000'000;
constexpr std::int64_t kLingerUs = 60 * kSecondUs;       // output nobody fetched stays this long after the end
constexpr std::int64_t kHeardLingerUs = 10 * kSecondUs;  // once everything was sent, but not acknowledged
constexpr std::int64_t kLeftoverEveryUs = 20'000;        // between looks at processes that do not die
constexpr std::int64_t kTracedPatienceUs = 2 * kSecondUs;
constexpr std::int64_t kPauseEveryUs = 1'000;      // between looks at processes that do not stop yet
constexpr std::int64_t kFenceSlackUs = kSecondUs;  // the agent, if there is one, goes first
constexpr std::int64_t kFenceKillWaitUs = 2 * kSecondUs;
constexpr std::int64_t kTellUs = kSecondUs;  // for a line of ours behind the end of the tasks
constexpr std::int64_t kTimeNever = INT64_MAX;
constexpr std::int64_t kBlockBytes = 512;  // of getrusage(2)
constexpr std::int64_t kSandboxWaitMinUs = kSecondUs, kSandboxWaitMaxUs = 30 * kSecondUs;
constexpr std::int64_t kLaunchPatienceUs = kSecondUs;  // for files that take long to open; then it counts as started
constexpr std::size_t kClientsMax = 64;                // connections
constexpr std::size_t kAttachedMax = 32;               // of them for frames
constexpr std::size_t kAgentsMax = 4;                  // of them for control
// Words of containers to the agent: each becomes an entry of the cluster's log, and the user decides how many there are
// to say. A few may follow each other at once, further ones at this rate.
constexpr std::int64_t kContainersEveryUs = 5 * kSecondUs;
constexpr std::int64_t kContainersAtOnce = 12;
// A checkpoint becomes an entry of the cluster's log, too: no more than one in this time, the last of them told.
constexpr std::int64_t kCheckpointEveryUs = 10 * kSecondUs;
constexpr std::int64_t kStageNoteEveryUs = kSecondUs / 4;
constexpr std::int64_t kStageStallUs = 600 * kSecondUs;  // longer than a file server that starts again is away
constexpr std::int64_t kContainersGatherUs = 30'000;     // what changes together is told together
constexpr int kPumpRounds = 16;
constexpr std::uint64_t kSignalMost = 64;
constexpr std::int64_t kWorldPatienceUs = 30 * kSecondUs;  // for lockstep-pmi to say the tasks' variables
constexpr std::int64_t kWorldPartingUs = 2 * kSecondUs;    // and to go once the last of them has ended
constexpr std::size_t kOutputMemory = 16 << 20;            // of a step, shared by its outputs

std::string read_all(int fd) {
  struct stat stat {};
  std::string bytes;
  if (::fstat(fd, &stat) != 0)
    return bytes;
  bytes.resize(static_cast<std::size_t>(stat.st_size));
  const ssize_t n = ::pread(fd, bytes.data(), bytes.size(), 0);
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

bool append_record(int fd, const std::string& bytes) {
  struct stat stat {};
  if (::fstat(fd, &stat) != 0)
    return false;
  const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), stat.st_size);
  if (n == static_cast<ssize_t>(bytes.size()))
    return true;
  if (n > 0 && ::ftruncate(fd, stat.st_size) != 0) {
    // The torn record stays and does not count.
  }
  return false;
}

StopWhy stop_why(std::string_view word) {
  const auto number = parse_uint(word);
  return number && *number <= static_cast<std::uint64_t>(StopWhy::kFailed) ? static_cast<StopWhy>(*number)
                                                                           : StopWhy::kNothing;
}

Duration since_zero(const timeval& time) { return {std::int64_t{time.tv_sec} * kSecondUs + time.tv_usec}; }

// What carries a step's output: `srun`, or `lockstep run`.
bool is_step_client(pid_t pid) {
  const std::string name = read_proc_text("/proc/" + std::to_string(pid) + "/comm");
  return name == "srun\n" || name == "lockstep\n";
}

// Made when the first of them is, which may be later.
void tell_containers_folder(ProcessSpec& process) {
  const char* state = ::getenv(kSpillVariable);
  char here[4096];
  std::string folder = state ? state : "../..";
  if (!folder.starts_with('/') && ::getcwd(here, sizeof here))
    folder = format("{}/{}", here, folder);
  process.env.push_back(format("{}={}/containers/{}", kContainersVariable, folder, process.uid));
}

class Shim {
 public:
  explicit Shim(ShimDescriptors descriptors) : record_fd_(descriptors.record) {
    clients_.push_back(std::make_unique<StepClient>(descriptors.control, StepClient::Kind::kControl));
  }

  int run() {
    if (auto ready = prepare(); !ready.ok())
      return fail(ready.error().message);
    if (auto begun = begin_launch(); !begun.ok())
      return fail(begun.error().message);
    while (!may_exit() && !failed_) turn();
    return failed_ ? fail(failed_->message) : 0;
  }

 private:
  Result<void> prepare();
  Result<void> listen();
  Result<void> begin_launch();
  Result<void> begin_tasks();
  void try_sandbox();
  void add_task(std::size_t local, const std::string& host, std::vector<std::string>& paths);
  void begin_world();
  void hear_world();
  void look_at_world();
  void join_world(const PmiVariables& variables);
  void refuse_tasks(const std::optional<std::string>& why);
  void tell_world();
  bool world_goes(std::int64_t now_us);
  void take_launched();
  void tell_started();
  Result<int> write_script();
  int fail(const std::string& why);
  void turn();
  WaitSet what_to_wait_for() const;
  std::int64_t time_to_wait(std::int64_t due_us) const;
  void serve(const std::vector<Awaited>& ready);
  void take_signals();
  void feed_clients();
  bool feed(StepClient& client) const;
  std::int64_t act_on_timers(std::int64_t now_us);
  void accept_clients();
  void bound_clients(StepClient& newest);
  void hear(StepClient& client);

  // What the agent says: a word, a number for most of them, and why for one.
  struct Told {
    std::optional<std::uint64_t> number;
    std::string why;
  };
  struct Order {
    std::string_view word;
    void (Shim::*act)(const Told&);
  };
  static const Order kOrders[];
  void obey(const std::string& line);
  std::optional<int> signal_of(const Told& told) const;
  void signal_all(const Told& told);
  void signal_tasks(int signal, bool has_each_step = false);
  // A signal for tasks that have not begun, which hear it when they have: nobody sends it again.
  struct EarlySignal {
    int signal = 0;
    std::uint64_t rank = kAllRanks;
    bool first_only = false;     // not what a task has started
    std::vector<pid_t> reached;  // have it already: one of them may be a task whose pid we do not know yet
    bool is_like(const EarlySignal& o) const {
      return signal == o.signal && rank == o.rank && first_only == o.first_only;
    }
  };
  bool all_launched() const { return launched_ == tasks_.size(); }
  void keep_for_later(EarlySignal early);
  void hand_on_early(const StepTask& task) const;
  void insist(std::int64_t now_us);
  void signal_first(const Told& told);
  pid_t first_process_of(const StepTask& task) const;
  void pause_as_told(const Told& told);
  void go_on_as_told(const Told& told);
  void stop_as_told(const Told& told);
  void notice_as_told(const Told& told);
  void forget(const Told& told);

  void client_frame(StepClient& client, const Frame& frame);
  void reap();
  void bury();
  void check_over();
  Result<void> open_place();
  void close_place();
  Result<void> place_container();
  bool finish_container();
  Result<void> place_sandbox();
  std::string sandbox_line() const;
  void hear_sandbox();
  void tell_containers();
  Result<int> listen_to_staging();
  void watch_checkpoints();
  void hear_told();
  void note_staging(const std::string& line);
  void end_stalled_staging();
  void see_checkpoint();
  void tell_checkpoint();
  void stop(std::int64_t kill_wait_us, StopWhy why);
  void tell_why(StopWhy why);
  void write_stop_notice(StopWhy why, std::int64_t kill_wait_us) const;
  void tell(const std::string& line);
  std::optional<WorkId> key() const;
  void look_for_memory_kills();
  void tell_of_memory_kills(std::uint64_t kills);
  void read_output(StepTask& task, int stream);
  WorkUse use() const;
  void kill_all();
  void kill_leftovers(pid_t but);
  void pause(std::uint64_t number);
  void go_on(std::uint64_t number);
  void check_paused();
  void check_fence(std::int64_t now_us);
  std::string state_lines() const;
  void tell_agents(const std::string& line);
  bool may_exit() const;
  bool someone_attached() const;

  int record_fd_;
  int listen_fd_ = -1, signal_fd_ = -1, script_fd_ = -1;
  ShimStart start_;
  SpillRoom spill_room_;
  OutputLimits limits_;
  StepTasks tasks_;
  StepClients clients_;
  std::unique_ptr<TaskStarter> starter_;  // null once every task has been started
  std::size_t launched_ = 0;              // so many of the first tasks
  std::map<pid_t, TaskEnd> early_ends_;   // of tasks that ended before we knew their pids
  std::vector<EarlySignal> early_signals_;
  ControlGroup group_{{}, {}};
  WorkUse used_;  // of all processes that were waited for; says nothing of tasks
  std::uint64_t memory_kills_ = 0, memory_kills_told_ = 0;
  std::string killed_program_;                  // the last one that SIGKILL ended
  std::unique_ptr<PmiLink> world_;              // of tasks that find each other
  bool world_waits_ = false;                    // for what it is to tell them, before they start
  std::vector<bool> world_told_;                // of the end of each task
  std::string host_;                            // without its domain
  pid_t teller_ = -1;                           // writes a line of ours into a file of the user's
  OpenPlace place_;                             // of the job: its tasks join it
  std::optional<ContainerPlace> container_;     // none, too, once what follows the tasks in it has begun
  std::unique_ptr<TaskStart> finish_;           // what follows
  pid_t finisher_ = 0;                          // its process, until it has ended
  std::optional<SandboxTask> sandbox_;          // of a task that is one
  std::string sandbox_why_;                     // why there is none yet; "" = there is one, or none is to be
  std::int64_t sandbox_at_us_ = kTimeNever;     // it is tried again then
  std::int64_t sandbox_wait_us_ = 0;            // the last wait for that
  std::int64_t containers_paid_us_ = 0;         // up to when words of them have been used up
  std::int64_t containers_at_us_ = kTimeNever;  // the next word of them
  std::int64_t stalls_at_us_ = kTimeNever;      // when a staging that says nothing has stood still too long
  bool stalled_ = false;
  bool lingers_ = false;                        // what its tasks leave behind goes on until it is told to end
  std::optional<ToldLines> told_;               // of a staging, or of who watches for checkpoints
  std::unique_ptr<TaskStart> watch_;            // who does
  std::unique_ptr<TaskStarter> watch_starter_;  // opens what it reads, which may take for ever
  std::int64_t checkpoint_us_ = 0;              // boot clock: when the last one was seen; 0 = none was
  std::int64_t checkpoint_told_us_ = 0;         // when one was told
  std::int64_t checkpoint_at_us_ = kTimeNever;  // the next is told then
  std::int64_t stage_noted_us_ = 0;
  std::optional<Error> failed_;               // no process could be made: nothing of the step shall stay
  bool started_ = false;                      // and told so
  std::int64_t began_us_ = 0, ended_us_ = 0;  // boot clock: an agent may hear of it much later
  bool children_gone_ = false;
  bool over_ = false;            // every process of the step is gone and the result is known
  bool result_written_ = false;  // or forgotten by the agent, who has it
  bool someone_heard_all_ = false;
  bool more_to_send_ = false;  // to a client that takes it faster than one turn gives
  bool paused_ = false;
  std::uint64_t pause_number_ = 0;         // of the last order to pause
  std::vector<pid_t> paused_seen_;         // at the last look
  std::set<pid_t> dead_seen_;              // at the last look: tasks that are dead and were not waited for
  std::int64_t pause_at_us_ = kTimeNever;  // next look at who still runs
  std::int64_t launched_us_ = boot_clock_us();
  std::int64_t started_at_us_ = launched_us_ + kLaunchPatienceUs;  // told then at the latest
  std::int64_t killing_since_us_ = kTimeNever;
  std::int64_t kill_at_us_ = kTimeNever;      // SIGKILL for those who ignored SIGTERM
  std::int64_t grace_until_us_ = 0;           // for those that may finish what they write
  std::int64_t leftover_at_us_ = kTimeNever;  // next look at what the tasks left behind
  std::int64_t fence_at_us_ = kTimeNever;
  std::int64_t linger_until_us_ = kTimeNever;
  std::int64_t world_due_us_ = kTimeNever;  // what lockstep-pmi is to do by then: get ready, or go
};

Result<void> Shim::prepare() {
  ::fcntl(record_fd_, F_SETFD, FD_CLOEXEC);
  ::fcntl(clients_[0]->fd(), F_SETFD, FD_CLOEXEC);
  ::syscall(SYS_close_range, kShimControlFd + 1, ~0U, 0);       // whatever the agent had open
  ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);  // a new one, which the tasks share
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t watched;
  ::sigemptyset(&watched);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) ::sigaddset(&watched, signal);
  ::sigprocmask(SIG_SETMASK, &watched, nullptr);
  signal_fd_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);

  auto records = TRY(decode_shim_records(read_all(record_fd_)));
  if (!records.launch)
    return Error{Errc::kCorrupt, "no launch in the record file", {}};
  start_ = std::move(*records.launch);
  group_ = ControlGroup(start_.oom_file, start_.freeze_file);
  start_.launch.kill_wait = bounded_kill_wait(start_.launch.kill_wait);
  if (start_.fence_after < kForever)
    fence_at_us_ = launched_us_ + start_.fence_after.us / 2;  // the lease then says when exactly
  TRY(open_place());
  return listen();
}

// The site's programs are the node's, and run as what is not of a job.
Result<void> Shim::open_place() {
  const auto work = key();
  if (work && (!is_hook(*work) || is_staging(*work)))
    place_ = TRY(open_job_place(format("../../{}/{}", kPlacesFolder, place_name(work->job, work->attempt))));
  tell_place(place_, start_.launch.process.env);
  tell_containers_folder(start_.launch.process);
  const auto asks = std::erase(start_.launch.process.env, format("{}=1", kLingerVariable));
  lingers_ = asks > 0 && work && step_of(*work);
  return {};
}

// Memory that its files took is free when nobody holds its mounts.
void Shim::close_place() {
  for (int* fd : {&place_.mounts, &place_.ipc, &place_.outside})
    if (*fd >= 0)
      ::close(std::exchange(*fd, -1));
}

Result<void> Shim::listen() {
  listen_fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  kShimSocketFile.copy(address.sun_path, sizeof address.sun_path - 1);
  if (listen_fd_ < 0 || ::bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listen_fd_, 16) != 0)
    return Error{Errc::kIo, std::string("io.sock: ") + ::strerror(errno), {}};
  return {};
}

// A real file, because scripts look at $0; its folder may be closed to the user, the descriptor is not.
Result<int> Shim::write_script() {
  const std::string name(kShimScriptFile);
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0500);
  if (fd < 0)
    return Error{Errc::kIo, std::string("script file: ") + ::strerror(errno), {}};
  const ssize_t n = ::write(fd, start_.script.data(), start_.script.size());
  const bool whole = n == static_cast<ssize_t>(start_.script.size());
  const ProcessSpec& process = start_.launch.process;
  const bool owned = ::geteuid() != 0 || process.uid == 0 || ::fchown(fd, process.uid, process.gid) == 0;
  const int error = errno;
  ::close(fd);  // a file open for writing cannot be run
  if (!whole || !owned)
    return Error{Errc::kIo, std::string("script file: ") + (n >= 0 && !whole ? "disk full" : ::strerror(error)), {}};
  const int reader = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (reader < 0)
    return Error{Errc::kIo, std::string("script file: ") + ::strerror(errno), {}};
  return reader;
}

void Shim::add_task(std::size_t local, const std::string& host, std::vector<std::string>& paths) {
  const char* spill = ::getenv(kSpillVariable);
  tasks_.push_back(std::make_unique<StepTask>(start_, local, limits_, host, spill ? spill : "."));
  const StepTask& task = *tasks_.back();
  for (int stream : {0, 1})
    if (!task.output_path(stream).empty())
      paths.push_back(task.output_path(stream));
}

Result<void> Shim::begin_launch() {
  CHECK(tasks_.empty() && !start_.launch.ranks.empty());
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  host_ = std::string(host).substr(0, std::string_view(host).find('.'));
  if (rlimit files{}; ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    TRY(check_descriptor_room(start_.launch, host_, files.rlim_cur));
  if (!start_.script.empty())
    script_fd_ = TRY(write_script());
  if (runs_in_container(start_.launch.process))
    TRY(place_container());
  if (!is_sandbox(start_.sandbox))
    return begin_tasks();
  try_sandbox();
  return failed_ ? Result<void>(*failed_) : Result<void>();
}

// What is wrong may pass: addresses come back when others have ended. So the task waits, and says for what. Where it
// can never be it fails.
void Shim::try_sandbox() {
  sandbox_at_us_ = kTimeNever;
  Result<void> made = place_sandbox();
  const bool waits = !made.ok() && made.error().code != Errc::kUnsupported && made.error().code != Errc::kInvalid;
  if (made.ok())
    made = begin_tasks();
  if (waits) {
    sandbox_wait_us_ = std::clamp(2 * sandbox_wait_us_, kSandboxWaitMinUs, kSandboxWaitMaxUs);
    sandbox_at_us_ = boot_clock_us() + sandbox_wait_us_;
    started_at_us_ = kTimeNever;
    sandbox_why_ = as_phrase(made.error().message, 500);  // plug-ins write several lines
    tell_agents(sandbox_line());
  } else if (!made.ok()) {
    failed_ = made.error();
  } else {
    sandbox_why_.clear();
    started_at_us_ = boot_clock_us() + kLaunchPatienceUs;
  }
}

std::string Shim::sandbox_line() const {
  TaskContainers told;
  told.reason = sandbox_why_;
  return format("containers {}\n", encode_containers(told));
}

Result<void> Shim::begin_tasks() {
  limits_.room = &spill_room_;
  limits_.memory_bytes =
      std::clamp<std::size_t>(kOutputMemory / (2 * start_.launch.ranks.size()), 32 << 10, OutputLimits{}.memory_bytes);

  const int tell_fd = TRY(listen_to_staging());
  std::vector<std::string> paths;
  std::vector<TaskStart*> starts;
  for (std::size_t local = 0; local < start_.launch.ranks.size(); ++local) {
    const std::size_t before = paths.size();
    add_task(local, host_, paths);
    const auto earlier = paths.begin() + static_cast<std::ptrdiff_t>(before);
    const bool twin = std::any_of(earlier, paths.end(), [&](const std::string& path) {
      return std::find(paths.begin(), earlier, path) != earlier;
    });
    TRY(tasks_.back()->prepare(start_, script_fd_, twin, container_ ? &*container_ : nullptr, place_,
                               sandbox_ ? &*sandbox_ : nullptr, tell_fd));
    starts.push_back(tasks_.back()->start());
  }
  CHECK(starts.size() == start_.launch.ranks.size() && tasks_.size() == starts.size());
  if (start_.launch.pmi != Pmi::kNone) {
    begin_world();
    return {};
  }
  starter_ = TRY(TaskStarter::begin(std::move(starts)));
  return {};
}

Result<void> Shim::place_container() {
  const char* state = ::getenv(kSpillVariable);
  container_ = TRY(make_container_place(std::string(state ? state : "../..") + "/containers", start_.launch.process));
  return {};
}

Result<void> Shim::place_sandbox() {
  const auto work = key();
  char folder[4096];
  if (!work || !task_of(*work) || start_.launch.ranks.size() != 1 || !::getcwd(folder, sizeof folder))
    return Error{Errc::kInvalid, "only a task has a sandbox", {}};
  const std::string own = folder;
  const std::string run = own.substr(0, own.rfind("/shims/"));
  const char* state = ::getenv(kSpillVariable);
  sandbox_.emplace(
      TRY(SandboxTask::make(start_, text_of(*work), state ? state : "../..", format("{}/{}", run, kAddressFolder))));
  return {};
}

// The descriptor for what runs; -1: it is no program of ours.
Result<int> Shim::listen_to_staging() {
  const auto work = key();
  if (!work || !is_staging(*work))
    return -1;
  told_.emplace(TRY(ToldLines::make()));
  stalls_at_us_ = boot_clock_us() + kStageStallUs;
  return told_->their_end();
}

// Its user can stop a program of his own, and open a pipe that nobody reads: meanwhile the job keeps what it has.
void Shim::end_stalled_staging() {
  stalls_at_us_ = kTimeNever;
  stalled_ = true;
  stop(0, StopWhy::kNothing);
}

// Without who watches the job runs as well.
void Shim::watch_checkpoints() {
  WatchedFiles files;
  for (int stream : {0, 1}) files.outputs[stream] = tasks_.front()->output_path(stream);
  if (files.outputs[1] == files.outputs[0])
    files.outputs[1].clear();
  if (told_ || !has_to_watch(start_, files))
    return;
  auto told = ToldLines::make();
  if (!told.ok())
    return;
  told_.emplace(std::move(*told));
  TaskPlan plan = plan_checkpoint_watch(start_, files, told_->their_end());
  plan.mounts = place_.mounts;
  plan.ipc = place_.ipc;
  plan.outside = place_.outside;
  watch_ = std::make_unique<TaskStart>(std::move(plan));
  if (auto starter = TaskStarter::begin({watch_.get()}); starter.ok())
    watch_starter_ = std::move(*starter);
}

void Shim::hear_told() {
  if (!told_->read())
    return;
  if (watch_)
    return see_checkpoint();
  stalls_at_us_ = boot_clock_us() + kStageStallUs;
  if (boot_clock_us() - stage_noted_us_ >= kStageNoteEveryUs)
    note_staging(told_->line());
}

// For the agent, which reads it there. Its maker is the user's: one line and no more is kept.
void Shim::note_staging(const std::string& line) {
  stage_noted_us_ = boot_clock_us();
  const std::string name(kStageFile), part = name + ".part";
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  const bool whole = ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(fd);
  if (whole)
    ::rename(part.c_str(), name.c_str());
}

void Shim::see_checkpoint() {
  checkpoint_us_ = boot_clock_us();
  if (checkpoint_at_us_ == kTimeNever)
    checkpoint_at_us_ = std::max(checkpoint_us_, checkpoint_told_us_ + kCheckpointEveryUs);
}

void Shim::tell_checkpoint() {
  checkpoint_at_us_ = kTimeNever;
  checkpoint_told_us_ = boot_clock_us();
  if (started_ && !over_)
    tell_agents(format("at {}\ncheckpoint\n", checkpoint_us_));
}

void Shim::hear_sandbox() {
  if (!sandbox_->read() || containers_at_us_ != kTimeNever)
    return;
  const std::int64_t now_us = boot_clock_us();
  containers_paid_us_ =
      std::max(containers_paid_us_, now_us - kContainersAtOnce * kContainersEveryUs) + kContainersEveryUs;
  containers_at_us_ = std::max(now_us + kContainersGatherUs, containers_paid_us_);
}

void Shim::tell_containers() {
  containers_at_us_ = kTimeNever;
  if (started_ && !over_ && !sandbox_->told().empty())
    tell_agents(format("containers {}\n", sandbox_->told()));
}

// Once no process of the tasks is left. True: something follows them, and has not ended yet.
bool Shim::finish_container() {
  if (sandbox_)
    sandbox_->withdraw();
  if (finisher_ == 0 && container_) {
    const ContainerPlace place = std::move(*std::exchange(container_, std::nullopt));
    const StepTask& first = *tasks_.front();
    TaskPlan plan = plan_container_end(place, start_.launch.process, first.kept_error_fd(),
                                       first.output_path(first.output_path(1).empty() ? 0 : 1));
    plan.enter = start_.enter;
    plan.mounts = place_.mounts;
    plan.ipc = place_.ipc;
    plan.outside = place_.outside;
    finish_ = std::make_unique<TaskStart>(std::move(plan));
    finish_->run();
    tasks_.front()->close_kept();
    if (const auto started = finish_->result(); started.ok() && started->failure.empty())
      finisher_ = started->pid;
  }
  return finisher_ != 0;
}

// The tasks start when they can be told how to find each other, which is nobody's fault but the user's if it fails.
void Shim::begin_world() {
  char self[4096], folder[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  const std::string program(self, n > 0 ? static_cast<std::size_t>(n) : 0);
  const char* cwd = ::getcwd(folder, sizeof folder);
  const auto key =
      cwd ? parse_work_id(std::string_view(cwd).substr(std::string_view(cwd).rfind('/') + 1)) : std::nullopt;
  const StepPart* step = key ? step_of(*key) : nullptr;
  world_waits_ = true;
  world_told_.resize(tasks_.size());
  auto started = PmiLink::start(start_, program.substr(0, program.rfind('/') + 1) + "lockstep-pmi",
                                step ? format("{}.{}", key->job.value, step->step) : std::string("step"), place_);
  if (!started.ok())
    return refuse_tasks(started.error().message);
  world_ = std::move(*started);
  world_due_us_ = boot_clock_us() + kWorldPatienceUs;
}

void Shim::hear_world() {
  world_->write();
  if (world_->wants_to_read() && world_->fd() >= 0)
    world_->read();
  look_at_world();
}

void Shim::look_at_world() {
  if (const auto why = world_->take_failure()) {
    if (world_waits_)
      return refuse_tasks(*why);
    if (kill_at_us_ != kTimeNever)  // it is ended with the rest
      return;
    world_->tell_client(format("{}: {}", host_, *why));
    return stop(start_.launch.kill_wait.us, StopWhy::kNothing);
  }
  if (!world_waits_ || paused_)
    return;
  if (const auto variables = world_->take_variables())
    join_world(*variables);
}

void Shim::join_world(const PmiVariables& variables) {
  CHECK(world_waits_ && !starter_ && variables.by_local.size() == tasks_.size());
  world_waits_ = false;
  world_due_us_ = kTimeNever;
  std::vector<TaskStart*> starts;
  for (std::size_t local = 0; local < tasks_.size(); ++local) {
    tasks_[local]->join_world(variables.common, variables.by_local[local], world_->take_task_end(local));
    starts.push_back(tasks_[local]->start());
  }
  auto starter = TaskStarter::begin(std::move(starts));
  if (starter.ok())
    starter_ = std::move(*starter);
  else
    failed_ = starter.error();
}

// None of them has started. Without words they were called off.
void Shim::refuse_tasks(const std::optional<std::string>& why) {
  CHECK(world_waits_ && !starter_ && launched_ == 0);
  world_waits_ = false;
  world_due_us_ = kTimeNever;
  for (const auto& task : tasks_) {
    if (why)
      task->refused(task == tasks_.front() ? *why : std::string());
    else
      task->called_off();
  }
  launched_ = tasks_.size();
  if (!started_)
    tell_started();
  reap();
}

void Shim::tell_world() {
  for (std::size_t local = 0; world_ && local < launched_; ++local)
    if (tasks_[local]->over() && !world_told_[local]) {
      world_told_[local] = true;
      if (kill_at_us_ == kTimeNever)  // else it was ended from outside, and is to blame for nothing
        world_->task_ended(local, tasks_[local]->exit());
    }
}

// Once no task is left: whether it is still to be waited for.
bool Shim::world_goes(std::int64_t now_us) {
  if (!world_ || world_->pid() == 0)
    return false;
  if (!world_->finishing()) {
    world_->finish();
    world_due_us_ = now_us + kWorldPartingUs;
  }
  return now_us < world_due_us_;
}

void Shim::take_launched() {
  CHECK(starter_);
  const std::size_t done = starter_->done();
  CHECK(launched_ <= done && done <= tasks_.size(),
        format("{} of {} tasks, {} before", done, tasks_.size(), launched_));
  for (; launched_ < done && !failed_; ++launched_) {
    StepTask& task = *tasks_[launched_];
    if (!starter_->began(launched_))
      task.called_off();
    else if (auto launched = task.launched(); !launched.ok())
      failed_ = launched.error();
    if (!task.running())
      continue;
    if (const auto end = early_ends_.find(task.pid()); end != early_ends_.end())
      task.exited(end->second);
    else
      hand_on_early(task);
  }
  if (failed_ || launched_ < tasks_.size())
    return;
  starter_.reset();
  early_ends_.clear();
  early_signals_.clear();
  if (sandbox_)
    sandbox_->handed_on();
  watch_checkpoints();
  if (script_fd_ >= 0)
    ::close(std::exchange(script_fd_, -1));
  tell_world();
  if (!started_)
    tell_started();
  reap();
}

void Shim::tell_started() {
  CHECK(!started_ && !over_);
  started_ = true;
  began_us_ = boot_clock_us();
  started_at_us_ = kTimeNever;
  std::vector<ShimPid> pids;
  for (const auto& task : tasks_)
    if (task->running())
      pids.push_back({static_cast<std::uint32_t>(task->pid()), boot_clock_us()});
  append_record(record_fd_, encode_pids_record(pids));
  tell_agents(state_lines());
}

// Nothing may stay behind when the launch is reported as failed.
int Shim::fail(const std::string& why) {
  if (starter_) {
    starter_->cancel();
    starter_->hold(false);
  }
  do {
    kill_all();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {}
  } while (any_lives_below(::getpid()) && ::usleep(1000) == 0);
  std::string lines(kShimHello);
  lines.append("failed ").append(why);
  std::replace(lines.begin() + static_cast<std::ptrdiff_t>(kShimHello.size()), lines.end(), '\n', ' ');
  tell_agents(lines.append("\n"));
  return 1;
}

std::string Shim::state_lines() const {
  std::string lines(kShimHello);
  if (started_)
    lines += format("at {}\nstarted\n", began_us_);
  if (!sandbox_why_.empty())
    lines += sandbox_line();
  if (started_ && !over_ && checkpoint_us_ > 0)
    lines += format("at {}\ncheckpoint\n", checkpoint_us_);
  if (started_ && sandbox_ && !sandbox_->told().empty())
    lines += format("containers {}\n", sandbox_->told());
  if (over_) {
    std::vector<TaskResult> results;
    for (const auto& task : tasks_) results.push_back({task->rank(), task->exit()});
    lines += "used " + text_of(use()) + "\n";
    lines += format("at {}\n", ended_us_) + "ended " + encode_results_text(results) + "\n";
  }
  return lines;
}

void Shim::tell_agents(const std::string& lines) {
  for (auto& client : clients_)
    if (client->kind() == StepClient::Kind::kControl) {
      client->send(lines);
      client->flush();
    }
}

WaitSet Shim::what_to_wait_for() const {
  using What = Awaited::What;
  WaitSet set;
  set.add(signal_fd_, POLLIN, {What::kSignals});
  set.add(listen_fd_, POLLIN, {What::kListener});
  if (starter_)
    set.add(starter_->fd(), POLLIN, {What::kStarter});
  if (const int events = world_ ? (world_->wants_to_read() ? POLLIN : 0) | (world_->wants_to_write() ? POLLOUT : 0) : 0)
    set.add(world_->fd(), events, {What::kWorld});
  if (sandbox_ && sandbox_->fd() >= 0)
    set.add(sandbox_->fd(), POLLIN, {What::kSandbox});
  if (told_ && told_->fd() >= 0)
    set.add(told_->fd(), POLLIN, {What::kTold});
  for (std::size_t i = 0; i < clients_.size(); ++i)
    set.add(clients_[i]->fd(), POLLIN | (clients_[i]->unsent() > 0 ? POLLOUT : 0), {What::kClient, i});
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    for (int stream : {0, 1})
      if (tasks_[i]->wants_output(stream))
        set.add(tasks_[i]->output_fd(stream), POLLIN, {What::kOutput, i, stream});
    if (tasks_[i]->wants_to_write())
      set.add(tasks_[i]->input_fd(), POLLOUT, {What::kInput, i});
  }
  return set;
}

std::int64_t Shim::time_to_wait(std::int64_t due_us) const {
  if (more_to_send_)
    return 0;
  return due_us == kTimeNever ? kWaitForEver : std::max<std::int64_t>(0, due_us - boot_clock_us());
}

void Shim::turn() {
  const std::int64_t due_us = act_on_timers(boot_clock_us());
  WaitSet waits = what_to_wait_for();
  if (!waits.wait(time_to_wait(due_us)))
    return;
  serve(waits.ready());
  feed_clients();
  if (someone_heard_all_ && !someone_attached())
    linger_until_us_ = std::min(linger_until_us_, boot_clock_us() + kHeardLingerUs);
}

void Shim::serve(const std::vector<Awaited>& ready) {
  bool signalled = false, accepting = false;
  for (const Awaited& one : ready) {
    switch (one.what) {
      case Awaited::What::kSignals: signalled = true; break;
      case Awaited::What::kListener: accepting = true; break;
      case Awaited::What::kStarter: take_launched(); break;
      case Awaited::What::kWorld: hear_world(); break;
      case Awaited::What::kSandbox: hear_sandbox(); break;
      case Awaited::What::kTold: hear_told(); break;
      case Awaited::What::kClient: hear(*clients_[one.index]); break;
      case Awaited::What::kOutput: read_output(*tasks_[one.index], one.stream); break;
      case Awaited::What::kInput: tasks_[one.index]->write_input(); break;
    }
  }
  // Last: it may drop a client, and those that are ready are named by their places.
  if (accepting)
    accept_clients();
  if (signalled)
    take_signals();
}

void Shim::take_signals() {
  signalfd_siginfo info{};
  while (::read(signal_fd_, &info, sizeof info) == sizeof info)
    if (info.ssi_signo == SIGTERM)
      stop(start_.launch.kill_wait.us, StopWhy::kNothing);
  reap();
}

// Everybody gets what he lacks and takes; what all have is forgotten, and who is gone is, too.
void Shim::feed_clients() {
  more_to_send_ = false;
  for (auto& client : clients_) {
    const bool more = feed(*client);
    more_to_send_ = more_to_send_ || (more && client->unsent() == 0 && !client->gone());
    someone_heard_all_ =
        someone_heard_all_ || (!client->gone() && !client->onlooker && told_everything(tasks_, *client));
  }
  trim_outputs(tasks_, clients_);
  std::erase_if(clients_, [](const auto& client) { return client->gone(); });
}

// True: there is more, and one turn gives no more than this.
bool Shim::feed(StepClient& client) const {
  bool more = true;
  for (int round = 0; more && client.unsent() == 0 && round < kPumpRounds; ++round) {
    const bool more_of_world = world_ && !client.onlooker && world_->pump(client);
    more = pump(tasks_, client) || more_of_world;
    client.flush();
  }
  client.flush();
  return more;
}

// Does what is due and returns when to look again.
std::int64_t Shim::act_on_timers(std::int64_t now_us) {
  if (now_us >= kill_at_us_) {
    signal_tasks(SIGKILL);
    insist(now_us);
    group_.thaw();  // what is frozen ends then, before it does anything else
    bury();
    kill_at_us_ = over_ ? kTimeNever : now_us + kLeftoverEveryUs;
  }
  if (now_us >= leftover_at_us_)
    check_over();
  if (now_us >= fence_at_us_)
    check_fence(now_us);
  if (now_us >= pause_at_us_)
    check_paused();
  if (now_us >= started_at_us_)
    tell_started();
  if (now_us >= sandbox_at_us_)
    try_sandbox();
  if (now_us >= containers_at_us_)
    tell_containers();
  if (now_us >= checkpoint_at_us_)
    tell_checkpoint();
  if (now_us >= stalls_at_us_)
    end_stalled_staging();
  if (now_us >= world_due_us_ && world_waits_ && !paused_)
    refuse_tasks(format("lockstep-pmi, by which the tasks find each other, was not ready within {} s",
                        kWorldPatienceUs / kSecondUs));
  const std::int64_t world_due_us = world_waits_ && !paused_ ? world_due_us_ : kTimeNever;
  return std::min({kill_at_us_, leftover_at_us_, fence_at_us_, linger_until_us_, pause_at_us_, started_at_us_,
                   world_due_us, sandbox_at_us_, containers_at_us_, checkpoint_at_us_, stalls_at_us_});
}

// There is always a place for one more, since it may be the agent: those go first who have not said what they are.
void Shim::accept_clients() {
  const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0)
    return;
  if (clients_.size() >= kClientsMax) {
    const auto silent = std::find_if(clients_.begin(), clients_.end(),
                                     [](const auto& client) { return client->kind() == StepClient::Kind::kUnknown; });
    clients_.erase(silent != clients_.end() ? silent : clients_.begin());
  }
  clients_.push_back(std::make_unique<StepClient>(fd, StepClient::Kind::kUnknown));
  CHECK(clients_.size() <= kClientsMax);
}

// A client that has just said what it is may be one too many of its kind. Of agents the latest one counts.
void Shim::bound_clients(StepClient& newest) {
  CHECK(newest.kind() != StepClient::Kind::kUnknown);
  const bool agent = newest.kind() == StepClient::Kind::kControl;
  std::size_t count = 0;
  StepClient* oldest = nullptr;
  for (const auto& client : clients_)
    if (client->kind() == newest.kind() && !client->gone()) {
      ++count;
      oldest = oldest ? oldest : client.get();
    }
  if (count > (agent ? kAgentsMax : kAttachedMax))
    (agent ? *oldest : newest).drop();
}

void Shim::hear(StepClient& client) {
  std::vector<std::string> lines;
  std::vector<Frame> frames;
  const StepClient::Kind before = client.kind();
  client.receive(lines, frames);
  if (client.kind() != before)
    bound_clients(client);
  for (const auto& line : lines) {
    if (line + "\n" == kShimHello)
      client.send(state_lines());
    else
      obey(line);
  }
  for (const auto& frame : frames) client_frame(client, frame);
}

const Shim::Order Shim::kOrders[] = {
    {"signal", &Shim::signal_all},     {"signal-first", &Shim::signal_first}, {"pause", &Shim::pause_as_told},
    {"resume", &Shim::go_on_as_told},  {"stop", &Shim::stop_as_told},         {"forget", &Shim::forget},
    {"notice", &Shim::notice_as_told},
};

// Words that a later agent may say, and those that say nothing, are passed over.
void Shim::obey(const std::string& line) {
  const auto words = split_words(line);
  if (words.empty())
    return;
  for (const Order& order : kOrders)
    if (order.word == words[0])
      return (this->*order.act)(
          {words.size() > 1 ? parse_uint(words[1]) : std::nullopt, words.size() > 2 ? words[2] : ""});
}

// A signal that may be sent now. What is paused is not woken by anybody.
std::optional<int> Shim::signal_of(const Told& told) const {
  if (!told.number || *told.number > kSignalMost || over_ || (paused_ && *told.number == SIGCONT))
    return std::nullopt;
  return static_cast<int>(*told.number);
}

void Shim::signal_all(const Told& told) {
  const auto work = key();
  if (const auto signal = signal_of(told))
    signal_tasks(*signal, work && is_script(*work));  // the first process alone was not meant: so the steps are, too
}

// What was killed and does not go may be held by another process of its user.
void Shim::insist(std::int64_t now_us) {
  killing_since_us_ = std::min(killing_since_us_, now_us);
  if (now_us - killing_since_us_ >= kTracedPatienceUs)
    end_tracers(::getpid(), start_.launch.process.uid);
}

// Everybody but lockstep-pmi, which stops and goes on with them, and tidies up when they have ended.
void Shim::signal_tasks(int signal, bool has_each_step) {
  const bool is_for_all = signal == SIGSTOP || signal == SIGCONT;
  const std::vector<pid_t> found = descendants_of(::getpid());
  for (const pid_t pid : found)
    if (has_each_step && !is_for_all && is_step_client(pid))
      ::sigqueue(pid, signal, {.sival_int = kSentToStepsToo});
    else if (is_for_all || !world_ || pid != world_->pid())
      ::kill(pid, signal);
  keep_for_later({.signal = signal, .reached = found});
}

// One that waits already waits once, as in the kernel. Whoever had it then and lives has it again.
void Shim::keep_for_later(EarlySignal early) {
  if (all_launched())
    return;
  std::erase_if(early_signals_, [&](const EarlySignal& other) { return other.is_like(early); });
  early_signals_.push_back(std::move(early));
}

void Shim::hand_on_early(const StepTask& task) const {
  CHECK(task.running());
  for (const EarlySignal& early : early_signals_) {
    const auto& reached = early.reached;
    if ((early.rank != kAllRanks && early.rank != task.rank()) ||
        std::find(reached.begin(), reached.end(), task.pid()) != reached.end())
      continue;
    if (!early.first_only)
      signal_descendants(task.pid(), early.signal);
    ::kill(early.first_only ? first_process_of(task) : task.pid(), early.signal);
  }
}

// Where epilogs follow a task, its first process is a child of who waits for them.
pid_t Shim::first_process_of(const StepTask& task) const {
  if (start_.launch.process.task_epilogs.empty())
    return task.pid();
  const auto children = split_words(read_proc_text(format("/proc/{0}/task/{0}/children", task.pid())));
  const auto first = children.empty() ? std::nullopt : parse_int(children.front());
  return first && *first > 1 ? static_cast<pid_t>(*first) : task.pid();
}

void Shim::signal_first(const Told& told) {
  const auto signal = signal_of(told);
  if (!signal)
    return;
  for (const auto& task : tasks_)
    if (task->running())
      ::kill(first_process_of(*task), *signal);
  keep_for_later({.signal = *signal, .first_only = true});
}

void Shim::pause_as_told(const Told& told) {
  if (told.number && !over_)
    pause(*told.number);
}

void Shim::go_on_as_told(const Told& told) {
  if (told.number && !over_)
    go_on(*told.number);
}

void Shim::stop_as_told(const Told& told) {
  if (!told.number)
    return;
  const auto wait = millis(static_cast<std::int64_t>(std::min<std::uint64_t>(*told.number, INT32_MAX)));
  stop(bounded_kill_wait(wait).us, stop_why(told.why));
}

// Ahead of a signal that warns. Once it is told to end, that has been written.
void Shim::notice_as_told(const Told& told) {
  if (!told.number || over_ || kill_at_us_ != kTimeNever)
    return;
  write_stop_notice(stop_why(told.why),
                    static_cast<std::int64_t>(std::min<std::uint64_t>(*told.number, INT32_MAX)) * 1000);
  if (!paused_)
    wake_stopped(::getpid());
}

void Shim::forget(const Told&) { result_written_ = result_written_ || over_; }

void Shim::client_frame(StepClient& client, const Frame& frame) {
  if (frame.type == static_cast<std::uint8_t>(IoFrame::kAttach)) {
    if (!apply_attach(client, tasks_, frame.payload))
      client.drop();
    else if (world_ && !client.onlooker)
      world_->attach(client);
  } else if (frame.type == static_cast<std::uint8_t>(IoFrame::kPmi)) {
    if (client.onlooker || (world_ && !world_->take(frame)))
      client.drop();
  } else if (frame.type == static_cast<std::uint8_t>(IoFrame::kSignal)) {
    if (frame.payload.size() != 1 || static_cast<unsigned char>(frame.payload[0]) > kSignalMost)
      return client.drop();
    if (paused_ && frame.payload[0] == SIGCONT)
      return;
    if (frame.stream == kAllRanks && !all_launched())  // one may be opening its files, and have no pid that we know
      return signal_tasks(frame.payload[0]);
    for (std::size_t local = 0; local < tasks_.size(); ++local) {
      const StepTask& task = *tasks_[local];
      if (frame.stream != kAllRanks && frame.stream != task.rank())
        continue;
      if (local >= launched_)
        keep_for_later({.signal = frame.payload[0], .rank = task.rank()});
      else if (task.running()) {
        ::kill(task.pid(), frame.payload[0]);
        signal_descendants(task.pid(), frame.payload[0]);
      }
    }
  } else if (!apply_frame(tasks_, client, frame)) {
    client.drop();
  }
}

void Shim::reap() {
  for (;;) {
    siginfo_t dead{};  // its name is there until it is waited for
    if (::waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid > 0 && dead.si_status == SIGKILL &&
        dead.si_code == CLD_KILLED)
      killed_program_ = trim(read_proc_text(format("/proc/{}/comm", dead.si_pid)));
    TaskEnd end;
    rusage used{};
    const pid_t pid = ::wait4(-1, &end.wait_status, WNOHANG, &used);
    if (pid < 0 && errno == EINTR)
      continue;
    children_gone_ = pid < 0;
    if (pid <= 0)
      break;
    end.user = since_zero(used.ru_utime);
    end.system = since_zero(used.ru_stime);
    end.memory_peak = std::int64_t{used.ru_maxrss} << 10;
    used_.user = used_.user + end.user;
    used_.system = used_.system + end.system;
    used_.read_bytes += used.ru_inblock * kBlockBytes;
    used_.written_bytes += used.ru_oublock * kBlockBytes;
    if (pid == finisher_)
      finisher_ = 0;
    const auto task = std::find_if(tasks_.begin(), tasks_.end(), [pid](const auto& candidate) {
      return candidate->running() && candidate->pid() == pid;
    });
    if (task != tasks_.end())
      (*task)->exited(end);
    else if (world_ && pid == world_->pid())
      world_->exited(end.wait_status);
    else if (starter_)
      early_ends_[pid] = end;
  }
  tell_world();
  check_over();
  if (world_ && !over_)
    look_at_world();
}

// A task that is dead and that we cannot wait for, since somebody traces it, has ended all the same. Seen twice, it
// is none that we shall hear of in a moment.
void Shim::bury() {
  reap();
  std::set<pid_t> dead;
  for (auto& task : tasks_) {
    if (!task->running() || !is_dead(task->pid()))
      continue;
    dead.insert(task->pid());
    if (dead_seen_.contains(task->pid()))
      task->exited({.wait_status = SIGKILL});
  }
  dead_seen_ = std::move(dead);
  check_over();
}

// Ended only when no process of the step is left: that is what the controller takes as proof.
void Shim::check_over() {
  leftover_at_us_ = kTimeNever;
  if (over_ || finisher_ != 0 || tasks_.empty() ||
      std::any_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return !task->over(); }))
    return;
  look_for_memory_kills();
  if (!children_gone_ && any_lives_below(::getpid())) {
    if (lingers_ && kill_at_us_ == kTimeNever)
      return;  // the last of them tells by its end
    kill_leftovers(world_goes(boot_clock_us()) ? world_->pid() : 0);
    insist(boot_clock_us());
    leftover_at_us_ = boot_clock_us() + kLeftoverEveryUs;
    return;
  }
  if (finish_container())
    return;
  CHECK(started_ && !starter_, "a step is over before it was told to have begun");
  std::vector<TaskResult> results;
  for (auto& task : tasks_) {
    task->drain_output(0);
    task->drain_output(1);
    results.push_back({task->rank(), task->exit()});
  }
  if (sandbox_)
    (void)sandbox_->read();
  if (stalled_)
    note_staging(encode_stage_word({.failure = format("nothing was copied for {} s", kStageStallUs / kSecondUs)}));
  else if (told_ && !watch_ && (told_->read() || !told_->line().empty()))
    note_staging(told_->line());
  over_ = true;
  close_place();
  ended_us_ = boot_clock_us();
  CHECK(ended_us_ >= began_us_);
  kill_at_us_ = fence_at_us_ = started_at_us_ = kTimeNever;
  containers_at_us_ = checkpoint_at_us_ = stalls_at_us_ = kTimeNever;
  const std::string containers = sandbox_ ? encode_containers_record(sandbox_->told()) : std::string();
  result_written_ = append_record(record_fd_, containers + encode_ended_record(ended_us_) + encode_use_record(use()) +
                                                  encode_result_record(results));
  linger_until_us_ = boot_clock_us() + kLingerUs;
  tell_agents(state_lines().substr(kShimHello.size()));
}

// In a time of grace two may finish: our own line, and an srun of the script, which passes on what its step still
// writes.
void Shim::kill_leftovers(pid_t but) {
  const bool grace = boot_clock_us() < grace_until_us_;
  for (const pid_t pid : descendants_of(::getpid()))
    if (pid != but && (!grace || (pid != teller_ && !is_step_client(pid))))
      ::kill(pid, SIGKILL);
}

std::optional<WorkId> Shim::key() const {
  char folder[4096];
  const char* cwd = ::getcwd(folder, sizeof folder);
  return cwd ? parse_work_id(std::string_view(cwd).substr(std::string_view(cwd).rfind('/') + 1)) : std::nullopt;
}

// What the kernel killed may have been a child that nobody waited for, in a task that ended well: the step was short
// of memory all the same. Of a front end's sandbox that is no end for want of memory: what ran on there has said how it
// ended.
void Shim::look_for_memory_kills() {
  const std::uint64_t kills = group_.oom_kills();
  if (kills <= memory_kills_)
    return;
  memory_kills_ = kills;
  bool found = false;
  for (const auto& task : tasks_)
    if (task->exit().signal == SIGKILL || (sandbox_ && task->exit().code == 128 + SIGKILL)) {
      task->was_out_of_memory();
      found = true;
    }
  if (!found && !start_.sandbox.front_end_files)
    tasks_.front()->was_out_of_memory();
  grace_until_us_ = std::max(grace_until_us_, boot_clock_us() + kTellUs);
  tell_of_memory_kills(kills);
}

void Shim::tell_of_memory_kills(std::uint64_t kills) {
  if (kills <= memory_kills_told_)
    return;
  memory_kills_told_ = kills;
  if (const auto work = key(); work && !task_of(*work))
    tell(out_of_memory_words(*work, kills, killed_program_));
  children_gone_ = false;  // who writes that line into a file is waited for
}

// PF_SIGNALED of include/linux/sched.h, in the flags of /proc/PID/stat.
bool dies_of_signal(pid_t pid) {
  constexpr std::uint64_t kSignaled = 0x400;
  const std::string stat = read_proc_text(format("/proc/{}/stat", pid));
  const auto close = stat.rfind(')');
  const auto fields =
      close == stat.npos ? std::vector<std::string>() : split_words(std::string_view(stat).substr(close + 1));
  return fields.size() > 6 && (parse_uint(fields[6]).value_or(0) & kSignaled) != 0;
}

// What the kernel kills lets go of its output before it can be waited for. Behind the end of its output nothing can be
// told.
void Shim::read_output(StepTask& task, int stream) {
  task.read_output(stream, [&] {
    const std::uint64_t kills = group_.oom_kills();
    if (kills > memory_kills_told_ && killed_program_.empty() && task.running() && dies_of_signal(task.pid()))
      killed_program_ = trim(read_proc_text(format("/proc/{}/comm", task.pid())));
    tell_of_memory_kills(kills);
  });
  if (task.take_sign())
    see_checkpoint();
}

WorkUse Shim::use() const {
  WorkUse all = used_;
  for (const auto& task : tasks_) {
    const TaskEnd& end = task->end();
    WorkUse one;
    one.tasks = 1;
    one.memory_peak = one.memory_sum = end.memory_peak;
    one.memory_peak_rank = one.least_cpu_rank = task->rank();
    one.least_cpu = end.user + end.system;
    all.add(one);
  }
  return all;
}

// What is frozen ends when it is thawed, before it does anything else.
void Shim::kill_all() {
  signal_descendants(::getpid(), SIGKILL);
  group_.thaw();
}

// Complete or not there: whoever waits for it reads it at once.
void Shim::write_stop_notice(StopWhy why, std::int64_t kill_wait_us) const {
  const std::string name(kStopFile), part = name + ".part";
  const std::string text = stop_notice(why, ::time(nullptr) + (kill_wait_us + kSecondUs - 1) / kSecondUs);
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0)
    return;
  const bool whole =
      ::fchmod(fd, 0644) == 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (whole)
    ::rename(part.c_str(), name.c_str());
}

// Once, on the first node of the step, as a line of its first task.
void Shim::tell_why(StopWhy why) {
  const auto work = key();
  if (!work || start_.launch.node_index != 0 || tasks_.empty() || !tasks_.front()->running())
    return;
  if (const std::string line = last_words(why, *work, host_, ::time(nullptr)); !line.empty())
    tell(line);
}

void Shim::tell(const std::string& line) {
  StepTask& task = *tasks_.front();
  if (task.tell_client(line))
    return;
  const std::string& path = task.output_path(task.output_path(1).empty() ? 0 : 1);
  if (!path.empty())
    teller_ = append_as_user(start_.launch.process, path, line);
}

void Shim::stop(std::int64_t kill_wait_us, StopWhy why) {
  if (over_)
    return;
  if (sandbox_at_us_ != kTimeNever) {  // nothing of it was there
    failed_ = Error{Errc::kUnavailable, "ended before it had a sandbox: " + sandbox_why_, {}};
    return;
  }
  if (starter_) {
    starter_->cancel();
    starter_->hold(false);
  }
  if (world_waits_)
    refuse_tasks(std::nullopt);
  if (over_)
    return;
  const bool first = kill_at_us_ == kTimeNever;
  if (first) {
    write_stop_notice(why, kill_wait_us);
    tell_why(why);
  }
  CHECK(kill_wait_us >= 0 && kill_wait_us <= kKillWaitMax.us, format("a wait of {} us", kill_wait_us));
  const bool keeper_ends = sandbox_ && start_.launch.process.uid == 0 && has_room(start_.sandbox);
  // It kills by itself what takes too long, and then tells how each has ended.
  const std::int64_t last_words_us = keeper_ends && kill_wait_us > 0 ? kKeeperLastWordsUs : 0;
  kill_at_us_ = std::min(kill_at_us_, boot_clock_us() + kill_wait_us + last_words_us);
  grace_until_us_ = first ? kill_at_us_ : std::min(grace_until_us_, kill_at_us_);
  if (first && kill_wait_us > 0) {
    const bool being_stopped = std::exchange(paused_, false);  // some may be about to
    pause_at_us_ = kTimeNever;
    group_.thaw();
    if (being_stopped)
      signal_descendants(::getpid(), SIGCONT);
    else
      wake_stopped(::getpid());
    if (!keeper_ends || !tasks_.front()->running())
      signal_descendants(::getpid(), SIGTERM);
    else  // hooks come before, and it knows the order
      ::kill(tasks_.front()->pid(), SIGTERM);
  }
}

void Shim::pause(std::uint64_t number) {
  CHECK(!over_);
  paused_ = true;
  if (starter_)
    starter_->hold(true);
  pause_number_ = number;
  paused_seen_.clear();
  group_.freeze();
  check_paused();
}

// Told only when nobody can run any more: others may get the cores then.
void Shim::check_paused() {
  const auto all_stand = [this] {
    return group_.asked_to_freeze() ? group_.is_frozen() || (group_.shows_frozen() && none_can_run(::getpid()))
                                    : stop_descendants(::getpid(), paused_seen_);
  };
  if (over_ || !paused_ || all_stand()) {
    pause_at_us_ = kTimeNever;
    if (!over_ && paused_)
      tell_agents(format("paused {}\n", pause_number_));
    return;
  }
  pause_at_us_ = boot_clock_us() + kPauseEveryUs;
}

void Shim::go_on(std::uint64_t number) {
  CHECK(!over_);
  paused_ = false;
  if (starter_)
    starter_->hold(false);
  pause_at_us_ = kTimeNever;
  if (group_.asked_to_freeze())
    group_.thaw();
  else
    signal_descendants(::getpid(), SIGCONT);
  tell_agents(format("resumed {}\n", number));
  if (world_)
    look_at_world();
}

// The controller counts on this node's work being gone fence_after behind the last renewal, agent or no agent.
void Shim::check_fence(std::int64_t now_us) {
  CHECK(start_.fence_after < kForever && !over_);
  std::int64_t renewed_us = launched_us_;  // unless there is a lease
  const std::string path = "../../" + std::string(kLeaseFile);
  if (const auto text = read_plain(path))
    if (const auto lease = parse_int(trim(*text)))
      renewed_us = *lease;
  const std::int64_t fence_us = renewed_us + start_.fence_after.us + kFenceSlackUs;
  if (now_us < fence_us) {
    fence_at_us_ = fence_us;
    return;
  }
  fence_at_us_ = kTimeNever;
  stop(paused_ ? 0 : std::min(start_.launch.kill_wait.us, kFenceKillWaitUs), StopWhy::kNodeFail);
}

bool Shim::may_exit() const {
  CHECK(over_ || !result_written_, "a result was written before there is one");
  if (!over_ || !result_written_)
    return false;
  if (!start_.launch.to_client || boot_clock_us() >= linger_until_us_)
    return true;
  return someone_heard_all_ && all_acknowledged(tasks_) && (!world_ || world_->all_acknowledged()) &&
         !someone_attached();
}

bool Shim::someone_attached() const {
  return std::any_of(clients_.begin(), clients_.end(), [this](const auto& client) {
    return client->attached && !(client->onlooker && told_everything(tasks_, *client));
  });
}

}  // namespace

void settle_shim() {
  ::mallopt(M_ARENA_MAX, 1);  // the thread that starts tasks needs no memory of its own
  reset_signals();
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);  // what they tell, a write's error says, too
  ::umask(077);
  ::prctl(PR_SET_DUMPABLE, 0);  // the tasks of a node without root have our uid, and may not look into us
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(fd, "-1000", 5);  // whoever fills the memory is a task
    ::close(fd);
  }
  (void)default_task_limits();  // read once, for all that is copied from us
}

int run_shim(ShimDescriptors descriptors) { return Shim(descriptors).run(); }

}  // namespace lockstep
