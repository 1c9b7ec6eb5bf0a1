// Where a controller listens for other machines: ADDR[:PORT] of `lockstep up --listen`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::uint16_t kControllerPort = 6820, kPeerPort = 6821;

struct ListenAt {
  std::string address;  // an IP address; 0.0.0.0 or :: = all of this machine's
  std::uint16_t port = 0;
  friend bool operator==(const ListenAt&, const ListenAt&) = default;
};
// "10.0.0.1", "10.0.0.1:7000", "fd00::1", "[fd00::1]:7000".
Result<ListenAt> parse_listen(const std::string& text, std::uint16_t otherwise = kControllerPort);
std::string as_argument(const ListenAt& at);                             // as lockstepd takes it
std::string host_and_port(const std::string& host, std::uint16_t port);  // "[fd00::1]:7000"
bool is_wildcard(const std::string& address);
bool is_loopback(const std::string& address);

// Who listens on a TCP port of this machine.
struct Listener {
  std::string address;
  std::string inode;  // of the socket, as /proc/PID/fd has it
};
std::vector<Listener> listeners_on(std::uint16_t port);
bool collide(const std::string& a, const std::string& b);  // addresses of which one port cannot be had twice

// Whether one can listen there. ours: where our own controller does now, which is to give it up for that.
Result<void> check_can_listen(const ListenAt& at, const std::optional<ListenAt>& ours);

// By which other machines reach a listener there: an address; "" = they do not.
std::string address_for_others(const std::string& address);
// By which this machine does.
std::string address_from_here(const std::string& address);

}  // namespace lockstep
