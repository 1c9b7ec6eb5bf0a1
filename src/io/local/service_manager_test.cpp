#include "io/local/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

namespace lockstep {
namespace {

TEST(ServiceManager, IsToldWhereItAsked) {
  const std::string path = "/tmp/lockstep-notify-" + std::to_string(::getpid());
  const int manager = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(manager, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  tell_service_manager("READY=1\nSTATUS=well");
  char told[64];
  const ssize_t size = ::recv(manager, told, sizeof told, MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(told, static_cast<std::size_t>(size)), "READY=1\nSTATUS=well");
  ::close(manager);
  ::unlink(path.c_str());

  for (const std::string& nobody : {path, std::string("@"), std::string(), std::string(300, '/')}) {
    ::setenv("NOTIFY_SOCKET", nobody.c_str(), 1);
    tell_service_manager("READY=1");
  }
  ::unsetenv("NOTIFY_SOCKET");
  tell_service_manager("READY=1");
}

}  // namespace
}  // namespace lockstep
