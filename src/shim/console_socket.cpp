#include "shim/console_socket.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

namespace lockstep {

int listen_on_socket(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return -1;
  path.copy(at.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  ::unlink(path.c_str());
  if (fd >= 0 && (::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || ::listen(fd, 8) != 0)) {
    ::close(fd);
    return -1;
  }
  return fd;
}

int take_terminal(int& listener) {
  const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0)
    return -1;
  char name[4096];
  iovec part{name, sizeof name};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  int terminal = -1;
  if (::recvmsg(fd, &message, MSG_CMSG_CLOEXEC) >= 0)
    if (const cmsghdr* head = CMSG_FIRSTHDR(&message); head && head->cmsg_type == SCM_RIGHTS) {
      ::memcpy(&terminal, CMSG_DATA(head), sizeof terminal);
      ::fcntl(terminal, F_SETFL, O_NONBLOCK);
    }
  ::close(fd);
  ::close(std::exchange(listener, -1));
  return terminal;
}

}  // namespace lockstep
