#include "io/shim_maker.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "shim/nursery.h"
#include "shim/process_tree.h"
#include "shim/protocol.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNurseryAgainUs = 1'000'000;

}  // namespace

ShimMaker::ShimMaker(int shims_fd, Fd null_fd, std::string shim_path, const std::string& spill_dir)
    : shims_fd_(shims_fd), null_fd_(std::move(null_fd)), shim_path_(std::move(shim_path)) {
  if (!spill_dir.empty())
    spill_variable_ = format("{}={}", kSpillVariable, spill_dir);
  struct stat log {};
  log_is_file_ = ::fstat(2, &log) == 0 && S_ISREG(log.st_mode);
  start_nursery();
}

// A nursery makes what it was asked to, then sees the end of its socket.
ShimMaker::~ShimMaker() = default;

Result<pid_t> ShimMaker::make(const std::string& name, int record, int control) {
  if (!socket_.valid() && boot_clock_us() >= nursery_again_us_)
    start_nursery();
  if (socket_.valid()) {
    if (ask_nursery(socket_.get(), name, record, control))
      return 0;
    if (errno != EAGAIN)  // it has as many to make as the socket holds
      end_nursery();
  }
  return spawn(name, record, control, nullptr);
}

void ShimMaker::start_nursery() {
  nursery_again_us_ = boot_clock_us() + kNurseryAgainUs;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return;
  socket_ = lifted(ends[0]);
  const Fd theirs = lifted(ends[1]);
  const auto pid = spawn({}, theirs.get(), -1, kNurseryOption);
  if (pid.ok())
    nursery_ = *pid;
  else
    socket_.reset();
}

// What was asked of it and not made shows as a shim that was killed.
void ShimMaker::end_nursery() {
  socket_.reset();
  if (nursery_ <= 0)
    return;
  ::kill(nursery_, SIGKILL);
  ::waitpid(nursery_, nullptr, WNOHANG);
  nursery_ = 0;
}

Result<pid_t> ShimMaker::spawn(const std::string& folder, int low, int next, const char* option) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  for (int fd : {0, 1}) ::posix_spawn_file_actions_adddup2(&actions, null_fd_.get(), fd);
  if (!log_is_file_)  // a pipe or terminal would stay open as long as the shim lives
    ::posix_spawn_file_actions_adddup2(&actions, null_fd_.get(), 2);
  ::posix_spawn_file_actions_adddup2(&actions, low, kShimRecordFd);
  if (next >= 0)
    ::posix_spawn_file_actions_adddup2(&actions, next, kShimControlFd);
  ::posix_spawn_file_actions_addfchdir_np(&actions, shims_fd_);
  if (!folder.empty())
    ::posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  // What is open here without close-on-exec: our sockets, and whatever the shell had that started the cluster.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, next >= 0 ? kShimControlFd + 1 : kShimRecordFd + 1);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string program = "lockstep-shim", word = option ? option : "", room = kRoomForName;
  if (!option)
    word = folder;  // for `ps`
  char* argv[] = {program.data(), word.data(), option ? room.data() : nullptr, nullptr};
  char* environment[] = {spill_variable_.empty() ? nullptr : spill_variable_.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, shim_path_.c_str(), &actions, &attributes, argv, environment);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return failed_call(shim_path_, error);
  return pid;
}

}  // namespace lockstep
