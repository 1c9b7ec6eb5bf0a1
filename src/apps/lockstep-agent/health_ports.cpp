#include "health_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kAnswersATurn = 32;
constexpr std::size_t kPortsMax = 1024;
constexpr std::size_t kQuestionMax = 4 << 10;  // of which nothing is read but that there is one

int listen_at(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  if (fd >= 0 && ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 && ::listen(fd, 32) == 0)
    return fd;
  if (fd >= 0)
    ::close(fd);
  return -1;
}

}  // namespace

HealthPorts::~HealthPorts() { keep({}); }

void HealthPorts::keep(const std::map<std::uint16_t, PacketRules::HealthPort>& wanted) {
  wanted_ = wanted;
  std::erase_if(open_, [this](const auto& one) {
    if (wanted_.contains(one.first))
      return false;
    loop_.unwatch(one.second);
    ::close(one.second);
    return true;
  });
  for (const auto& [port, what] : wanted_)
    if (!open_.contains(port) && open_.size() < kPortsMax)
      if (const int fd = listen_at(port); fd >= 0) {
        open_[port] = fd;
        loop_.watch(fd, [this, number = port, fd] { answer(number, fd); });
      }
}

// The answer fits what a fresh connection takes; nobody is waited for.
void HealthPorts::answer(std::uint16_t port, int fd) {
  const auto known = wanted_.find(port);
  for (int i = 0; i < kAnswersATurn && known != wanted_.end(); ++i) {
    const int client = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
      return;
    const auto& what = known->second;
    const std::string body = format("{{\"service\":{{\"namespace\":\"{}\",\"name\":\"{}\"}},\"localEndpoints\":{}}}\n",
                                    what.space, what.name, what.local_ends);
    const std::string text =
        format("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
               what.local_ends > 0 ? "200 OK" : "503 Service Unavailable", body.size(), body);
    [[maybe_unused]] const ssize_t sent = ::send(client, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(client, SHUT_WR);
    // What was asked is taken in, or closing would take the answer back.
    char bytes[kQuestionMax];
    while (::recv(client, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
    ::close(client);
  }
}

}  // namespace lockstep
