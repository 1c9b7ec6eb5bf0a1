#include "health_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kMeetingsATurn = 32;
constexpr std::size_t kPortsMax = 1024, kClientsMax = 128;
constexpr Duration kPatience = seconds(3);

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

HealthPorts::~HealthPorts() {
  keep({});
  for (auto& [id, client] : clients_) loop_.cancel(client.patience);
}

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
        loop_.watch(fd, [this, number = port, fd] { meet(number, fd); });
      }
}

void HealthPorts::meet(std::uint16_t port, int fd) {
  for (int i = 0; i < kMeetingsATurn; ++i) {
    const int client = ::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0)
      return;
    if (clients_.size() >= kClientsMax) {
      ::close(client);
      continue;
    }
    const std::uint64_t id = next_++;
    Client& one = clients_[id];
    one.stream = std::make_unique<FdStream>(loop_, client, nullptr);
    one.patience = loop_.after(kPatience, [this, id] { clients_.erase(id); });
    one.stream->on_data([this, id, port](std::string_view) { answer(id, port); });
    one.stream->on_close([this, id] { end_soon(id); });
  }
}

// Whatever is asked, in however many pieces.
void HealthPorts::answer(std::uint64_t id, std::uint16_t port) {
  const auto client = clients_.find(id);
  const auto known = wanted_.find(port);
  if (client == clients_.end() || std::exchange(client->second.is_answered, true))
    return;
  const PacketRules::HealthPort what = known == wanted_.end() ? PacketRules::HealthPort{} : known->second;
  const std::string body = format("{{\"service\":{{\"namespace\":\"{}\",\"name\":\"{}\"}},\"localEndpoints\":{}}}\n",
                                  what.space, what.name, what.local_ends);
  client->second.stream->write(
      format("HTTP/1.1 {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
             what.local_ends > 0 ? "200 OK" : "503 Service Unavailable", body.size(), body));
  client->second.stream->close();
}

// The stream is calling us: it goes from the loop.
void HealthPorts::end_soon(std::uint64_t id) {
  loop_.post([this, id] {
    if (const auto client = clients_.find(id); client != clients_.end()) {
      loop_.cancel(client->second.patience);
      clients_.erase(client);
    }
  });
}

}  // namespace lockstep
