#include "cli/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "io/local/process.h"

namespace lockstep {

namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* any() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* any() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

std::optional<Address> socket_address(const ListenAt& at) {
  Address out;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (inet_pton(AF_INET, at.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(at.port);
    out.size = sizeof *v4;
  } else if (inet_pton(AF_INET6, at.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(at.port);
    out.size = sizeof *v6;
  } else {
    return std::nullopt;
  }
  return out;
}

std::string text_of(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else if (address->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

bool is_link_local(const std::string& address) {
  return address.starts_with("169.254.") || address.starts_with("fe80:");
}

// Of interfaces that are up, those of IPv4 first.
std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  std::vector<std::string> v4, v6;
  if (getifaddrs(&list) != 0)
    return {};
  for (const ifaddrs* one = list; one; one = one->ifa_next)
    if (one->ifa_addr)
      if (std::string text = text_of(one->ifa_addr); !text.empty())
        (one->ifa_addr->sa_family == AF_INET ? v4 : v6).push_back(std::move(text));
  freeifaddrs(list);
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

// The one that packets to the world would leave from: nothing is sent.
std::string address_towards_the_world(const char* world) {
  const auto there = socket_address({world, 9});
  const int fd = socket(there->storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Address own;
  own.size = sizeof own.storage;
  const bool known =
      fd >= 0 && connect(fd, there->any(), there->size) == 0 && getsockname(fd, own.any(), &own.size) == 0;
  if (fd >= 0)
    close(fd);
  return known ? text_of(own.any()) : "";
}

// "0100007F" -> "127.0.0.1", as /proc/net/tcp has it: words in the machine's byte order.
std::string address_of_hex(const std::string& hex) {
  unsigned char bytes[16] = {};
  const std::size_t size = hex.size() / 2;
  if (size != 4 && size != 16)
    return {};
  for (std::size_t i = 0; i < size; ++i) {
    unsigned value = 0;
    if (sscanf(hex.c_str() + 2 * i, "%2x", &value) != 1)
      return {};
    bytes[i - i % 4 + (3 - i % 4)] = static_cast<unsigned char>(value);
  }
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(size == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
  return text;
}

Error not_of_this_machine(const std::string& address) {
  auto own = own_addresses();
  std::erase_if(own, is_link_local);
  return invalid(format("{} is no address of this machine, which has {}. 0.0.0.0 means all of them", address,
                        own.empty() ? std::string("none") : join(own, ", ")));
}

}  // namespace

std::vector<Listener> listeners_on(std::uint16_t port) {
  constexpr std::string_view kListening = "0A";
  constexpr std::size_t kLocal = 1, kState = 3, kInode = 9;
  std::vector<Listener> out;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const auto text = read_file(table);
    if (!text)
      continue;
    for (const auto& line : split(*text, '\n')) {
      const auto words = split_words(line);
      if (words.size() <= kInode || words[kState] != kListening)
        continue;
      const auto local = split(words[kLocal], ':');
      if (local.size() == 2 && local[1] == format("{:04X}", port))
        out.push_back({address_of_hex(local[0]), words[kInode]});
    }
  }
  return out;
}

bool collide(const std::string& a, const std::string& b) {
  return a == b || a == "::" || b == "::" || (a == "0.0.0.0" && b.find(':') == b.npos) ||
         (b == "0.0.0.0" && a.find(':') == a.npos);
}

Result<ListenAt> parse_listen(const std::string& text, std::uint16_t otherwise) {
  ListenAt at{text, otherwise};
  std::string port;
  const bool bracketed = text.starts_with('[');
  const auto close = text.find(']');
  const auto colon = bracketed ? text.find(':', std::min(close, text.size())) : text.find(':');
  const bool has_port = colon != text.npos && (bracketed || text.find(':', colon + 1) == text.npos);
  if (has_port) {
    at.address = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (bracketed && close != text.npos && (has_port ? close + 1 == colon : close + 1 == text.size()))
    at.address = text.substr(1, close - 1);
  const auto number = has_port ? parse_uint(port) : std::optional<std::uint64_t>(otherwise);
  if (!number || *number == 0 || *number > 65535)
    return invalid(format("--listen {}: the port is a number from 1 to 65535", text));
  at.port = static_cast<std::uint16_t>(*number);
  if (!socket_address(at))
    return invalid(format(
        "--listen {}: write an IP address of this machine, or 0.0.0.0 for all of them, and a port if it is not {}: "
        "10.0.0.1, 10.0.0.1:7000, [fd00::1]:7000",
        text, otherwise));
  return at;
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
  return host.find(':') == host.npos ? format("{}:{}", host, port) : format("[{}]:{}", host, port);
}
std::string as_argument(const ListenAt& at) { return host_and_port(at.address, at.port); }

bool is_wildcard(const std::string& address) { return address == "0.0.0.0" || address == "::"; }
bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

Result<void> check_can_listen(const ListenAt& at, const std::optional<ListenAt>& ours) {
  for (const auto& [other, inode] : listeners_on(at.port))
    if (collide(at.address, other) && !(ours && *ours == ListenAt{other, at.port}))
      return conflict(
          format("port {0} on {1} is taken by another program, which `ss -ltnp sport = :{0}` names for root. Choose "
                 "another port: {2}",
                 at.port, other, host_and_port(at.address, static_cast<std::uint16_t>(at.port + 1))));
  const auto address = socket_address(at);
  CHECK(address.has_value(), at.address);
  Address probe = *address;  // of the address alone: the port may still be ours
  if (probe.storage.ss_family == AF_INET)
    reinterpret_cast<sockaddr_in*>(&probe.storage)->sin_port = 0;
  else
    reinterpret_cast<sockaddr_in6*>(&probe.storage)->sin6_port = 0;
  const int fd = socket(probe.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = fd >= 0 && bind(fd, probe.any(), probe.size) == 0;
  const int why = errno;
  if (fd >= 0)
    close(fd);
  if (bound)
    return {};
  if (why == EADDRNOTAVAIL)
    return not_of_this_machine(at.address);
  return Error{Errc::kIo, format("cannot listen on {}: {}", at.address, strerror(why)), {}};
}

std::string address_for_others(const std::string& address) {
  if (!is_wildcard(address))
    return is_loopback(address) ? "" : address;
  for (const char* world : {"192.0.2.1", "2001:db8::1"}) {
    if (address == "0.0.0.0" && std::string_view(world).find(':') != std::string_view::npos)
      continue;
    if (std::string own = address_towards_the_world(world); !own.empty() && !is_loopback(own) && !is_link_local(own))
      return own;
  }
  for (const std::string& own : own_addresses())
    if (!is_loopback(own) && !is_link_local(own) && (address == "::" || own.find(':') == own.npos))
      return own;
  return {};
}

std::string address_from_here(const std::string& address) {
  if (!is_wildcard(address))
    return address;
  // Not loopback, so that other nodes reach this one where it says it is.
  if (std::string own = address_for_others(address); !own.empty())
    return own;
  return address == "::" ? "::1" : "127.0.0.1";
}

}  // namespace lockstep
