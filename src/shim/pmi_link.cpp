#include "shim/pmi_link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "pmi/bytes.h"
#include "shim/task_launch.h"

namespace lockstep {
namespace {

constexpr const char* kWho = "lockstep-pmi, by which the tasks find each other,";

struct Ends {
  int ours = -1, theirs = -1;
};

Result<Ends> socket_ends(int more_flags) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | more_flags, 0, ends) != 0)
    return os_error("socketpair");
  return Ends{ends[0], ends[1]};
}

PmiWorld world_of(const TaskProcesses& step, const std::string& key) {
  PmiWorld world;
  world.kind = step.pmi == Pmi::kPmix ? PmiWorld::Kind::kPmix : PmiWorld::Kind::kWire;
  // A server of PMIx believes whoever knows the name of its world.
  world.job = step.world_secret.empty() ? key : format("{}.{}", key, step.world_secret);
  world.node_index = step.node_index;
  for (const auto& node : step.world) world.nodes.push_back({node.name, node.ranks});
  return world;
}

// Its own files are none: a home that hangs does not keep it from starting.
TaskPlan plan_of(const ShimStart& start, const std::string& program, const std::string& key, std::vector<int> ends,
                 const OpenPlace& place) {
  TaskPlan plan;
  plan.argv = {program, key};
  plan.env = start.launch.process.env;
  plan.work_dir = "/";
  plan.uid = start.launch.process.uid;
  plan.gid = start.launch.process.gid;
  plan.groups = start.launch.process.groups;
  plan.umask = 077;
  plan.no_new_privs = true;
  plan.limits = default_task_limits();
  plan.streams[1].flags = plan.streams[2].flags = O_WRONLY;
  plan.enter = start.enter;
  plan.mounts = place.mounts;
  plan.ipc = place.ipc;
  plan.outside = place.outside;
  plan.inherited = std::move(ends);
  return plan;
}

// The bytes of a frame that are not known yet: [offset, offset + size) beyond `got`.
std::string_view beyond(std::uint64_t got, std::uint64_t offset, std::string_view bytes) {
  if (offset > got || offset + bytes.size() <= got)
    return {};
  return bytes.substr(got - offset);
}

}  // namespace

Result<std::unique_ptr<PmiLink>> PmiLink::start(const ShimStart& start, const std::string& program,
                                                const std::string& key, const OpenPlace& place) {
  const TaskProcesses& step = start.launch;
  CHECK(step.pmi != Pmi::kNone && !step.ranks.empty());
  if (::access(program.c_str(), X_OK) != 0)
    return Error{Errc::kNotFound,
                 format("{} cannot be run: {}. It belongs beside lockstep-shim", program, ::strerror(errno)),
                 {}};
  const std::string world = encode_pmi_world(world_of(step, key));
  if (const auto whole = decode_pmi_world(world); !whole.ok())
    return whole.error();
  std::unique_ptr<PmiLink> link(new PmiLink(step.ranks.front()));
  link->tasks_ = step.ranks.size();
  const Ends control = TRY(socket_ends(0));
  link->fd_ = control.ours;
  ::fcntl(control.ours, F_SETFL, O_NONBLOCK);
  std::vector<int> theirs{control.theirs};
  Result<void> made;
  for (std::size_t i = 0; made.ok() && step.pmi == Pmi::kPmi2 && i < link->tasks_; ++i) {
    const auto ends = socket_ends(0);
    if (!ends.ok()) {
      made = ends.error();
      break;
    }
    theirs.push_back(ends->ours);
    link->task_ends_.push_back(ends->theirs);
  }
  Result<StartedTask> started{StartedTask{}};
  if (made.ok()) {
    TaskStart child(plan_of(start, program, key, theirs, place));
    child.run();
    started = child.result();
  }
  for (const int end : theirs) ::close(end);
  TRY(made);
  const StartedTask process = TRY(started);
  if (!process.failure.empty())
    return Error{Errc::kIo, format("cannot start {}: {}", program, process.failure), {}};
  link->pid_ = process.pid;
  link->queue_.append(encode_pmi_control(PmiControl::kWorld, world));
  link->write();
  return link;
}

PmiLink::~PmiLink() {
  close_fd();
  for (const int end : task_ends_)
    if (end >= 0)
      ::close(end);
}

void PmiLink::close_fd() {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = -1;
  queue_.clear();
}

void PmiLink::lost(std::string why) {
  close_fd();
  if (!std::exchange(lost_, true) && !finishing_ && !failure_)
    failure_ = std::move(why);
}

void PmiLink::end_process() const {
  if (pid_ > 0)
    ::kill(pid_, SIGKILL);
}

void PmiLink::read() {
  char chunk[64 << 10];
  const ssize_t n = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n <= 0) {  // how it ended is told when it was waited for
    close_fd();
    return end_process();
  }
  const auto fed = reader_.feed({chunk, static_cast<std::size_t>(n)},
                                [this](PmiControl kind, std::string_view payload) { hear(kind, payload); });
  if (!fed.ok()) {
    lost(format("{} is not understood: {}", kWho, fed.error().message));
    end_process();
  }
}

void PmiLink::hear(PmiControl kind, std::string_view payload) {
  if (kind == PmiControl::kUp) {
    up_.append(payload);
  } else if (kind == PmiControl::kFailed) {
    if (!finishing_ && !failure_)
      failure_ = std::string(payload);
  } else if (kind == PmiControl::kReady && !std::exchange(ready_, true)) {
    auto variables = decode_pmi_variables(payload, tasks_);
    if (variables.ok())
      variables_ = std::move(*variables);
    else if (!failure_)
      failure_ = format("lockstep-pmi gives {}", variables.error().message);
  }
}

void PmiLink::write() {
  while (fd_ >= 0 && !queue_.empty()) {
    const std::string_view bytes = queue_.front(256 << 10);
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && errno != EAGAIN)
      return;  // reading says so, and what it said last
    if (n <= 0)
      return;
    queue_.drop(static_cast<std::size_t>(n));
  }
}

std::optional<PmiVariables> PmiLink::take_variables() { return std::exchange(variables_, std::nullopt); }

int PmiLink::take_task_end(std::size_t local) {
  return local < task_ends_.size() ? std::exchange(task_ends_[local], -1) : -1;
}

std::optional<std::string> PmiLink::take_failure() { return std::exchange(failure_, std::nullopt); }

void PmiLink::tell_client(std::string why) { up_.append(encode_pmi_message(PmiAbort{1, std::move(why)})); }

void PmiLink::task_ended(std::size_t local, const ExitStatus& exit) {
  if (fd_ < 0)
    return;
  PmiWriter out;
  out.number(local, 4)
      .number(static_cast<std::uint8_t>(exit.code), 1)
      .number(static_cast<std::uint8_t>(exit.signal), 1);
  queue_.append(encode_pmi_control(PmiControl::kEnded, out.take()));
  write();
}

void PmiLink::finish() {
  if (std::exchange(finishing_, true) || fd_ < 0)
    return;
  if (pid_ > 0)
    ::kill(pid_, SIGCONT);  // it may have been stopped with the tasks
  queue_.append(encode_pmi_control(PmiControl::kFinish, {}));
  write();
}

void PmiLink::exited(int status) {
  pid_ = 0;
  for (bool heard = true; fd_ >= 0 && heard && !failure_;) {  // its last words
    const std::uint64_t before = up_.end();
    read();
    heard = up_.end() > before;
  }
  lost(WIFSIGNALED(status) ? format("{} was ended by signal {}", kWho, WTERMSIG(status))
                           : format("{} ended with exit code {}", kWho, WEXITSTATUS(status)));
}

void PmiLink::attach(StepClient& client) const { client.pmi = {up_.base(), 0, 0, true}; }

bool PmiLink::take(const Frame& frame) {
  const auto down = decode_pmi_down(frame.payload);
  if (!down || down->got > up_.end())
    return false;
  up_.trim(down->got);
  std::uint64_t& got = down->to_all ? got_all_ : got_own_;
  const std::string_view fresh = beyond(got, down->offset, down->bytes);
  if (fresh.empty())
    return true;
  got += fresh.size();
  if (fd_ >= 0) {
    queue_.append(encode_pmi_control(down->to_all ? PmiControl::kAll : PmiControl::kOwn, fresh));
    write();
  }
  return queue_.size() <= kQueueMax;
}

bool PmiLink::pump(StepClient& client) const {
  StepClient::PmiCursor& cursor = client.pmi;
  cursor.sent = std::max(cursor.sent, up_.base());
  while (client.attached && !client.gone() && client.unsent() < kPmiWindow / 4) {
    const std::string_view bytes = up_.read(cursor.sent, kPmiChunk);
    if (bytes.empty() && !cursor.fresh && cursor.told_own == got_own_ && cursor.told_all == got_all_)
      return false;
    client.send(encode_frame(static_cast<std::uint8_t>(IoFrame::kPmi), first_rank_,
                             encode(PmiUp{cursor.sent, got_own_, got_all_, cursor.fresh, bytes})));
    cursor = {cursor.sent + bytes.size(), got_own_, got_all_, false};
  }
  return client.attached && !client.gone();
}

}  // namespace lockstep
