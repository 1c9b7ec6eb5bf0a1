#include "shim/step_task.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "shim/binding_words.h"
#include "shim/protocol.h"
#include "shim/task_hooks.h"

namespace lockstep {
namespace {

constexpr int kPipeMax = 1 << 20;  // what a user may make of a pipe

void close_fd(int& fd) {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

Error failed(const char* what) { return {Errc::kIo, std::string(what) + ": " + ::strerror(errno), {}}; }

}  // namespace

StepTask::StepTask(const ShimStart& start, std::size_t local, const OutputLimits& limits, const std::string& host,
                   std::string spill)
    : place_{start.launch.ranks[local], static_cast<std::uint32_t>(local), start.launch.node_index, host},
      local_(local),
      limits_(limits),
      spill_(std::move(spill)) {
  CHECK(local < start.launch.ranks.size());
  const ProcessSpec& process = start.launch.process;
  output_paths_[0] = expand_placeholders(process.std_out, place_);
  output_paths_[1] = expand_placeholders(process.std_err, place_);
}

StepTask::~StepTask() {
  for (int& end : child_ends_) close_fd(end);
  close_fd(world_fd_);
  close_fd(output_fds_[0]);
  close_fd(output_fds_[1]);
  close_fd(input_fd_);
  close_kept();
}

void StepTask::close_kept() { close_fd(kept_error_fd_); }

Result<int> StepTask::make_pipe(TaskPlan& plan, int stream) {
  CHECK(child_ends_[stream] < 0, format("a second pipe for stream {}", stream));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return failed("pipe");
  const bool input = stream == 0;
  child_ends_[stream] = ends[input ? 0 : 1];
  plan.streams[stream].how = TaskStream::How::kDescriptor;
  plan.streams[stream].fd = child_ends_[stream];
  ::fcntl(ends[input ? 1 : 0], F_SETFL, O_NONBLOCK);
  return ends[input ? 1 : 0];
}

void StepTask::make_log(int stream) {
  CHECK(!logs_[stream]);
  const std::string file = spill_ + "/output." + std::to_string(::getpid()) + "." + std::to_string(place_.rank) + "." +
                           std::to_string(stream + 1);
  logs_[stream] = std::make_unique<OutputLog>(file, limits_);
}

Result<void> StepTask::plan_terminal(const TaskProcesses& step, TaskPlan& plan) {
  terminal_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  char name[64];
  if (terminal_ < 0 || ::grantpt(terminal_) != 0 || ::unlockpt(terminal_) != 0 ||
      ::ptsname_r(terminal_, name, sizeof name) != 0)
    return failed("pseudo terminal");
  output_fds_[0] = terminal_;
  make_log(0);
  plan.terminal = child_ends_[0] = ::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (plan.terminal < 0)
    return failed("pseudo terminal");
  if (::geteuid() == 0 && ::fchown(plan.terminal, step.process.uid, static_cast<gid_t>(-1)) != 0)
    return failed("pseudo terminal");
  resize_terminal(step.rows, step.columns);
  input_fd_ = ::fcntl(terminal_, F_DUPFD_CLOEXEC, 0);
  for (auto& stream : plan.streams) stream.how = TaskStream::How::kTerminal;
  return {};
}

Result<void> StepTask::plan_streams(const ShimStart& start, TaskPlan& plan, bool twin_outputs) {
  const TaskProcesses& step = start.launch;
  if (step.pty && place_.rank == 0)
    return plan_terminal(step, plan);
  const bool relay = step.to_client && !step.pty;  // beside a terminal, other ranks have nowhere to write

  TaskStream& in = plan.streams[0];
  in.flags = O_RDONLY;
  if (const std::string path = expand_placeholders(step.process.std_in, place_); !path.empty())
    in.path = path;
  else if (relay)
    input_fd_ = TRY(make_pipe(plan, 0));

  // Always at the end of the file: ranks may share it, and they write side by side.
  const int creation = O_WRONLY | O_CREAT | O_APPEND;
  const bool keep = step.process.append || twin_outputs;
  for (int stream : {0, 1}) {
    TaskStream& out = plan.streams[stream + 1];
    out.flags = O_WRONLY;
    if (!output_paths_[stream].empty()) {
      out.path = output_paths_[stream];
      out.flags = creation | (keep ? 0 : O_TRUNC);
      if (stream == 1 && output_paths_[1] == output_paths_[0])
        out.how = TaskStream::How::kJoinOutput;
    } else if (stream == 1 && !output_paths_[0].empty()) {
      out.how = TaskStream::How::kJoinOutput;
    } else if (relay) {
      output_fds_[stream] = TRY(make_pipe(plan, stream + 1));
      make_log(stream);
    }
  }
  return {};
}

namespace {

std::string node_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string_view whole = name;
  return std::string(whole.substr(0, whole.find('.')));
}

}  // namespace

Result<void> StepTask::prepare(const ShimStart& start, int script_fd, bool twin_outputs,
                               const ContainerPlace* container, const OpenPlace& place, const SandboxTask* sandbox,
                               int tell_fd) {
  const TaskProcesses& step = start.launch;
  CHECK(state_ == State::kPrepared && !start_ && !plan_);
  CHECK(step.argv_by_rank.empty() || local_ < step.argv_by_rank.size());
  CHECK(step.env_by_rank.empty() || local_ < step.env_by_rank.size());
  CHECK(step.cores_by_rank.empty() || local_ < step.cores_by_rank.size());
  const ProcessSpec& process = step.process;
  TaskPlan plan;
  const auto& words = step.argv_by_rank.empty() ? process.argv : step.argv_by_rank[local_];
  for (const auto& word : words) plan.argv.push_back(expand_placeholders(word, place_));
  plan.env = process.env;
  for (const auto& variable : process.task_env) plan.env.push_back(expand_placeholders(variable, place_));
  std::string gpu_binding;
  if (!step.env_by_rank.empty()) {
    std::vector<std::string> own = step.env_by_rank[local_];
    gpu_binding = take_gpu_binding(own);
    plan.env.insert(plan.env.end(), own.begin(), own.end());
  }
  char buffer[4096];
  const char* cwd = ::getcwd(buffer, sizeof buffer);
  const std::string folder = cwd ? cwd : ".";
  plan.env.push_back(format("{}={}/{}", kStopVariable, folder, kStopFile));
  if (script_fd >= 0) {
    plan.script = format("{}/{}", folder, kShimScriptFile);
    plan.script_fd = script_fd;
  }
  plan.work_dir = process.work_dir;
  plan.uid = process.uid;
  plan.gid = process.gid;
  plan.groups = process.groups;
  plan.umask = process.umask;
  plan.makes_tmpdir = !container && !sandbox;  // a container's folders are its own
  plan.no_new_privs = start.no_new_privs;
  plan.enter = start.enter;
  plan.mounts = place.mounts;
  plan.ipc = sandbox ? -1 : place.ipc;  // a sandbox has its own
  plan.outside = place.outside;
  if (!step.cores_by_rank.empty())
    plan.cores = step.cores_by_rank[local_];
  if (local_ == 0)
    plan.note = start.note;
  plan.memory = memory_policy(step.memory_bind, local_);
  plan.binding = binding_words(plan.env, {node_name(), place_.rank, static_cast<std::uint32_t>(local_), plan.cores,
                                          plan.memory, std::move(gpu_binding)});
  plan.limits = default_task_limits();
  take_shell_limits(plan.env, plan.limits);
  TRY(plan_streams(start, plan, twin_outputs));
  if (container) {
    put_in_container(*container, process.container, plan);
    const int error = child_ends_[2] >= 0 ? child_ends_[2] : child_ends_[0];
    if (local_ == 0 && !process.container.save.empty() && (plan.terminal >= 0 || child_ends_[2] >= 0))
      kept_error_fd_ = ::fcntl(error, F_DUPFD_CLOEXEC, 0);
  }
  if (sandbox)
    put_in_sandbox(*sandbox, step.kill_wait, plan);
  if (tell_fd >= 0) {
    plan.program = "/proc/self/exe";
    plan.inherited = {tell_fd};
  }
  for (LineSign& sign : signs_) sign = LineSign(start.checkpoint_line);
  // Around a container, too: the programs are the node's.
  if (!process.task_prologs.empty() || !process.task_epilogs.empty()) {
    std::vector<std::string> task = std::move(plan.argv);
    if (!plan.script.empty())
      task.insert(task.begin(), plan.script);
    plan.argv = words_around_task(process.task_prologs, process.task_epilogs, task);
    plan.program = "/proc/self/exe";
  }
  if (step.pmi != Pmi::kNone)
    plan_ = std::make_unique<TaskPlan>(std::move(plan));
  else
    start_ = std::make_unique<TaskStart>(std::move(plan));
  return {};
}

void StepTask::join_world(const std::vector<std::string>& common, const std::vector<std::string>& own, int fd) {
  CHECK(plan_ && !start_ && world_fd_ < 0);
  for (const auto* variables : {&common, &own})
    plan_->env.insert(plan_->env.end(), variables->begin(), variables->end());
  if (fd >= 0)
    plan_->inherited = {fd};
  world_fd_ = fd;
  start_ = std::make_unique<TaskStart>(std::move(*std::exchange(plan_, nullptr)));
}

Result<void> StepTask::launched() {
  CHECK(state_ == State::kPrepared && start_, format("rank {} is launched twice", rank()));
  for (int& end : child_ends_) close_fd(end);
  close_fd(world_fd_);
  const auto started = std::exchange(start_, nullptr)->result();
  if (!started.ok())
    return started.error();
  failure_ = started->failure;
  exit_ = started->failure_exit;
  state_ = failure_.empty() ? State::kRunning : State::kOver;
  pid_ = failure_.empty() ? started->pid : 0;
  CHECK(running() == (pid_ > 0), format("rank {} with pid {}", rank(), pid_));  // 0 would be all of us, for kill()
  return {};
}

void StepTask::called_off() {
  CHECK(state_ == State::kPrepared && (start_ || plan_), format("rank {} is called off behind its start", rank()));
  for (int& end : child_ends_) close_fd(end);
  close_fd(world_fd_);
  start_.reset();
  plan_.reset();
  state_ = State::kOver;
  exit_ = {0, SIGTERM, false};
}

void StepTask::refused(std::string why) {
  called_off();
  failure_ = std::move(why);
  exit_ = {1, 0, false};
}

void StepTask::exited(const TaskEnd& end) {
  CHECK(running(), format("rank {} ends, and does not run", rank()));
  state_ = State::kOver;
  end_ = end;
  if (WIFSIGNALED(end.wait_status))
    exit_.signal = WTERMSIG(end.wait_status);
  else
    exit_.code = WEXITSTATUS(end.wait_status);
  input_.clear();
  said_.clear();
  close_input();
}

void StepTask::read_output(int stream, const std::function<void()>& before_its_end) {
  char chunk[64 << 10];
  const ssize_t n = ::read(output_fds_[stream], chunk, sizeof chunk);
  CHECK(n <= 0 || logs_[stream], format("output of rank {} that nobody keeps", rank()));
  if (n > 0)
    logs_[stream]->append({chunk, static_cast<std::size_t>(n)});
  if (n > 0 && signs_[stream].see({chunk, static_cast<std::size_t>(n)}))
    sign_seen_ = true;
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
    return;
  if (before_its_end)
    before_its_end();
  close_fd(output_fds_[stream]);  // a terminal says EIO when its last process is gone
}

// What was in the pipe when the last process of the step had ended: somebody outside it may hold the other end, and
// write for ever.
void StepTask::drain_output(int stream) {
  int waiting = kPipeMax;  // a terminal does not count what is still on its way
  if (output_fds_[stream] >= 0 && terminal_ < 0 && ::ioctl(output_fds_[stream], FIONREAD, &waiting) != 0)
    waiting = kPipeMax;
  while (output_fds_[stream] >= 0) {
    const std::uint64_t before = logs_[stream]->end();
    read_output(stream);
    const std::uint64_t got = logs_[stream]->end() - before;
    waiting -= static_cast<int>(got);
    if (got == 0 || waiting <= 0)
      close_fd(output_fds_[stream]);
  }
  CHECK(output_ended(stream));
}

bool StepTask::tell_client(std::string_view line) {
  const int stream = logs_[1] ? 1 : 0;
  if (!logs_[stream])
    return false;
  if (output_fds_[stream] < 0)
    return true;  // its end was told
  if (terminal_ >= 0 && line.ends_with('\n'))
    logs_[stream]->append(std::string(line.substr(0, line.size() - 1)) + "\r\n");
  else
    logs_[stream]->append(line);
  return true;
}

void StepTask::take_input(std::uint64_t offset, std::string_view bytes) {
  const std::uint64_t have = input_done_ + input_.size();
  if (input_eof_ || offset > have || offset + bytes.size() <= have)
    return;  // a gap is a client's mistake: it resumes from what we acknowledge
  bytes.remove_prefix(have - offset);
  if (input_fd_ < 0)
    input_done_ += bytes.size();  // nobody reads any more
  else
    input_.append(bytes);
  CHECK(input_done_ + input_.size() > have);
}

void StepTask::end_input(std::uint64_t offset) {
  if (offset == input_done_ + input_.size())
    input_eof_ = true;
}

void StepTask::take_words(std::string_view bytes) {
  if (input_fd_ >= 0 && !input_eof_)
    said_.append(bytes);
}

void StepTask::write_input() {
  while (input_fd_ >= 0 && !input_.empty()) {
    const ssize_t n = ::write(input_fd_, input_.data(), input_.size());
    if (n < 0 && errno == EAGAIN)
      return;
    if (n < 0 && errno != EINTR)
      close_input();
    if (n > 0) {
      input_.erase(0, static_cast<std::size_t>(n));
      input_done_ += static_cast<std::uint64_t>(n);
    }
  }
  while (input_fd_ >= 0 && !said_.empty()) {
    const ssize_t n = ::write(input_fd_, said_.data(), said_.size());
    if (n < 0 && errno == EAGAIN)
      return;
    if (n < 0 && errno != EINTR)
      close_input();
    if (n > 0)
      said_.erase(0, static_cast<std::size_t>(n));
  }
  if (input_fd_ >= 0 && input_eof_) {
    if (terminal_ >= 0 && ::write(input_fd_, "\x04", 1) < 0) {
      // The terminal's reader is gone or its queue is full: it will notice the hangup instead.
    }
    close_input();
  }
}

void StepTask::close_input() {
  input_done_ += input_.size();
  input_.clear();
  said_.clear();
  close_fd(input_fd_);
}

void StepTask::resize_terminal(std::uint16_t rows, std::uint16_t columns) {
  if (terminal_ < 0 || output_fds_[0] < 0 || rows == 0 || columns == 0)
    return;
  winsize size{};
  size.ws_row = rows;
  size.ws_col = columns;
  ::ioctl(terminal_, TIOCSWINSZ, &size);
}

}  // namespace lockstep
