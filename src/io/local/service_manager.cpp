#include "io/local/service_manager.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep {

void tell_service_manager(std::string_view lines) {
  const char* where = ::getenv("NOTIFY_SOCKET");
  const std::string_view path = where ? where : "";
  sockaddr_un address{};
  if (path.size() < 2 || path.size() >= sizeof address.sun_path)
    return;
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  if (path[0] == '@')  // a name without a file
    address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  // Who manages us must never keep us from our work.
  (void)!::sendto(fd, lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&address), length);
  ::close(fd);
}

}  // namespace lockstep
