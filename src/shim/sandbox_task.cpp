#include "shim/sandbox_task.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "shim/sandbox_keeper.h"
#include "wire/sandbox_text.h"

namespace lockstep {
namespace {

constexpr std::size_t kContainerLineMax = 1 << 20;  // of a keeper that is not ours any more
constexpr int kReadsAtOnce = 16;

void close_end(int& fd) {
  if (fd >= 0)
    ::close(fd);
  fd = -1;
}

Result<int> text_file(const std::string& text) {
  int fd = ::memfd_create("sandbox", MFD_CLOEXEC);
  if (fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::lseek(fd, 0, SEEK_SET) == 0)
    return fd;
  const Error error = os_error("cannot keep what the sandbox runs");
  close_end(fd);
  return error;
}

}  // namespace

Result<SandboxTask> SandboxTask::make(const ShimStart& start, const std::string& work, const std::string& state,
                                      const std::string& addresses) {
  SandboxTask out;
  out.place_ = TRY(make_container_place(state + "/containers", start.launch.process));
  out.place_.work = work;
  out.spec_fd_ = TRY(text_file(encode_sandbox(start.sandbox)));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return os_error("pipe");
  out.fd_ = ends[0];
  out.told_fd_ = ends[1];
  ::fcntl(out.fd_, F_SETFL, O_NONBLOCK);
  const bool nodes_ipc = start.sandbox.node_ipc && start.launch.process.uid == 0;
  if (start.sandbox.network == TaskNetwork::kOwn) {
    SandboxNetwork network =
        TRY(enter_sandbox_network(start.place, work, addresses, nodes_ipc ? IpcSpace::kNodes : IpcSpace::kOwn));
    // Only root's may take ports of the node for themselves.
    const auto published =
        publish_ports(network, start.launch.process.uid == 0 ? start.sandbox.published : std::vector<PublishedPort>(),
                      work, addresses);
    if (!published.ok()) {
      leave_sandbox_network(network, work, addresses);
      return published.error();
    }
    out.address_ = network.address;
    out.addresses_ = addresses;
    out.host_ = network.host;
    out.held_ = std::move(network.held);
  } else if (!nodes_ipc) {
    leave_ipc_of_node();
  }
  return out;
}

SandboxTask::SandboxTask(SandboxTask&& other) noexcept
    : place_(std::move(other.place_)),
      spec_fd_(std::exchange(other.spec_fd_, -1)),
      told_fd_(std::exchange(other.told_fd_, -1)),
      fd_(std::exchange(other.fd_, -1)),
      host_(std::exchange(other.host_, -1)),
      held_(std::exchange(other.held_, {})),
      address_(std::move(other.address_)),
      addresses_(std::move(other.addresses_)),
      unread_(std::move(other.unread_)),
      told_(std::move(other.told_)) {}

SandboxTask::~SandboxTask() {
  handed_on();
  close_end(fd_);
  let_go();
}

void SandboxTask::let_go() {
  close_end(host_);
  for (const int port : std::exchange(held_, {})) ::close(port);
}

void SandboxTask::withdraw() {
  if (host_ >= 0)
    withdraw_ports(host_, place_.work, addresses_);
  let_go();
}

void SandboxTask::handed_on() {
  close_end(spec_fd_);
  close_end(told_fd_);
}

// The user's own process says it, so it may say anything.
bool SandboxTask::take(const std::string& line) {
  auto said = decode_containers(line);
  if (!said.ok())
    return false;
  TaskContainers told;
  told.address = address();
  told.containers = std::move(said->containers);
  told.reason = std::move(said->reason);
  std::string text = encode_containers(told);
  return std::exchange(told_, text) != text;
}

bool SandboxTask::read() {
  bool changed = false;
  char chunk[16 << 10];
  for (int round = 0; fd_ >= 0 && round < kReadsAtOnce; ++round) {
    const ssize_t n = ::read(fd_, chunk, sizeof chunk);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      break;
    if (n <= 0 || unread_.size() > kContainerLineMax) {
      close_end(fd_);
      break;
    }
    unread_.append(chunk, static_cast<std::size_t>(n));
  }
  const auto last = unread_.rfind('\n');
  if (last == unread_.npos)
    return changed;
  const auto before = last == 0 ? unread_.npos : unread_.rfind('\n', last - 1);
  const std::size_t from = before == unread_.npos ? 0 : before + 1;
  changed = take(unread_.substr(from, last - from));  // each tells all, so the latest is enough
  unread_.erase(0, last + 1);
  return changed;
}

void put_in_sandbox(const SandboxTask& sandbox, Duration grace, TaskPlan& plan) {
  const ContainerPlace& place = sandbox.place();
  const std::string folder = place.program.substr(0, place.program.rfind('/'));
  plan.argv = {folder + "/lockstep-shim", kSandboxOption};
  plan.env.push_back("LOCKSTEP_CONTAINER_HOME=" + place.folder);
  plan.env.push_back("LOCKSTEP_CONTAINER_WORK=" + place.work);
  plan.env.push_back(format("{}={}", kSandboxProgramVariable, place.program));
  plan.env.push_back(format("{}={}", kSandboxGraceVariable, grace.millis()));
  if (!sandbox.address().empty())
    plan.env.push_back(format("{}={}", kTaskAddressVariable, sandbox.address()));
  plan.inherited = {sandbox.spec_fd(), sandbox.told_fd()};
}

}  // namespace lockstep
