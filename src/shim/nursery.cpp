#include "shim/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "shim/protocol.h"
#include "shim/shim.h"

namespace lockstep {
namespace {

constexpr std::size_t kNameMax = 255;
constexpr std::size_t kDescriptors = 2;  // record and control, in the order of their numbers in a shim

struct Letter {
  explicit Letter(char* text, std::size_t size) : bytes{text, size} {
    head.msg_iov = &bytes;
    head.msg_iovlen = 1;
    head.msg_control = control;
    head.msg_controllen = sizeof control;
  }
  iovec bytes;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)] = {};
  msghdr head{};
};

// The number of bytes of the name; 0 at the end of the socket. Descriptors get the lowest free numbers, which are a
// shim's.
ssize_t receive(int socket, char* name, std::array<int, kDescriptors>& fds) {
  Letter letter(name, kNameMax);
  ssize_t n;
  do n = ::recvmsg(socket, &letter.head, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return 0;
  const cmsghdr* part = CMSG_FIRSTHDR(&letter.head);
  if (!part || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(sizeof(int) * kDescriptors))
    return 0;
  ::memcpy(fds.data(), CMSG_DATA(part), sizeof(int) * kDescriptors);
  return n;
}

// Not fork(): the new process's parent must be the agent, as if it had started the shim itself.
pid_t copy_beside_us() { return static_cast<pid_t>(::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)); }

void set_name(const char* name) { ::prctl(PR_SET_NAME, name); }

// The words of a command line lie one behind the other. What does not fit is left out.
void show_as(char** arguments, const char* name) {
  char* end = arguments[0];
  for (char** word = arguments; *word && *word == end; ++word) end += ::strlen(*word) + 1;
  const auto room = static_cast<std::size_t>(end - arguments[0]);
  ::memset(arguments[0], 0, room);
  ::strncpy(arguments[0], name, room > 0 ? room - 1 : 0);
}

void say(int control, const std::string& line) {
  ::send(control, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

int run_nursery(int socket, char** arguments) {
  // Above the numbers that are a shim's.
  const int mine = ::fcntl(socket, F_DUPFD_CLOEXEC, 10);
  ::close(socket);
  settle_shim();
  set_name(kNurseryName);
  // It ends when it has done what it was asked for and sees the end of its socket; one that is stopped sees nothing.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  char name[kNameMax + 1];
  std::array<int, kDescriptors> fds{-1, -1};
  while (const ssize_t size = receive(mine, name, fds)) {
    name[size] = '\0';
    if (fds[0] != kShimRecordFd || fds[1] != kShimControlFd)
      return 1;
    const pid_t pid = copy_beside_us();
    if (pid == 0) {
      ::close(mine);
      ::setsid();
      set_name("lockstep-shim");
      show_as(arguments, name);
      return ::chdir(name) == 0 ? run_shim({}) : 1;
    }
    if (pid > 0)
      say(fds[1], std::string(kNurseryPid) + std::to_string(pid) + "\n");
    else
      say(fds[1], std::string("failed cannot make a process: ") + ::strerror(errno) + "\n");
    for (const int fd : fds) ::close(fd);
  }
  return 0;
}

bool ask_nursery(int socket, const std::string& folder, int record, int control) {
  CHECK(record >= 0 && control >= 0 && record != control && !folder.empty());
  std::string name = folder;
  Letter letter(name.data(), name.size());
  cmsghdr* part = CMSG_FIRSTHDR(&letter.head);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int) * kDescriptors);
  const int fds[kDescriptors] = {record, control};
  ::memcpy(CMSG_DATA(part), fds, sizeof fds);
  return name.size() <= kNameMax && ::sendmsg(socket, &letter.head, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

}  // namespace lockstep
