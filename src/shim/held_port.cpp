#include "shim/held_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {

namespace {

// What has ended lately keeps a port for a minute, from those alone who do not say that they do not mind.
int bind_there(bool is_udp, const sockaddr_in& address, int reuse) {
  const int fd = ::socket(AF_INET, (is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  const int small = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);  // nothing is read there
  if (!is_udp)
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

}  // namespace

Result<int> hold_port(std::string_view protocol, const std::string& address, std::uint16_t port) {
  const bool is_udp = protocol == "udp";
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool is_known = address.empty() || ::inet_pton(AF_INET, address.c_str(), &at.sin_addr) == 1;
  if ((!is_udp && protocol != "tcp") || !is_known)
    return Error{Errc::kUnsupported, format("{}/{} cannot be held", port, protocol), {}};
  int fd = bind_there(is_udp, at, 0);
  if (fd < 0 && errno == EADDRINUSE && !is_udp)
    fd = bind_there(is_udp, at, 1);
  if (fd >= 0)
    return fd;
  if (errno == EADDRINUSE)
    return conflict(format("something else listens at port {}/{} of this node", port, protocol));
  return Error{Errc::kUnsupported, format("{}/{} cannot be held", port, protocol), {}};
}

}  // namespace lockstep
