#include "io/http_lanes.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

using Lane = HttpCaller::Lane;

constexpr std::string_view kStrangers = "strangers";
constexpr std::size_t kAddressConnections = 256;  // of one address, without a certificate
constexpr std::size_t kAddressMemory = 2u << 20;  // likewise
constexpr std::size_t kLeast = 8;                 // however small the whole is

FairShare::Bounds connection_bounds(std::size_t all) {
  const std::size_t reserve = all / 8;
  return {.limit = all - reserve, .each = std::max(kLeast, all / 4), .reserve = reserve};
}

FairShare::Standing standing_of(Lane lane) {
  return lane == Lane::kReserved || lane == Lane::kMember ? FairShare::Standing::kReserved
                                                          : FairShare::Standing::kOrdinary;
}

// "2001:db8:1:2:3:4:5:6" -> "2001:db8:1:2": who has one such address has all of them.
std::string network_of(const std::string& address) {
  if (address.find(':') == std::string::npos)
    return address;
  if (address.starts_with("::ffff:") && address.find('.') != std::string::npos)
    return address.substr(7);
  std::size_t end = 0;
  for (int groups = 0; groups < 4 && end != std::string::npos; ++groups) {
    if (address.compare(end, 2, "::") == 0)
      break;  // the rest of the network is zeroes
    end = address.find(':', end + 1);
  }
  return end == 0 ? address : address.substr(0, end);
}

}  // namespace

HttpCaller caller_of(const Peer& peer, std::uint32_t own_uid) {
  switch (peer.how) {
    case Peer::How::kUnixSocket:
    case Peer::How::kForwarded:
      return {peer.uid == 0 || peer.uid == own_uid ? Lane::kReserved : Lane::kUser, format("uid {}", peer.uid)};
    case Peer::How::kCertificate:
      return {peer.certificate_role == "admin"                                                    ? Lane::kReserved
              : peer.certificate_name.starts_with("user:") || peer.certificate_role == kGuestRole ? Lane::kUser
                                                                                                  : Lane::kMember,
              peer.certificate_name};
    case Peer::How::kNobody: break;
  }
  return {Lane::kStranger, network_of(peer.address)};
}

HttpHold& HttpHold::operator=(HttpHold&& from) noexcept {
  (void)resize(0);
  lanes_ = std::move(from.lanes_);
  caller_ = std::move(from.caller_);
  of_ = from.of_;
  amount_ = std::exchange(from.amount_, 0);
  return *this;
}

bool HttpHold::resize(std::size_t amount) {
  if (amount > amount_ && (!lanes_ || !lanes_->take(caller_, of_, amount - amount_)))
    return false;
  if (amount < amount_)
    lanes_->give(caller_, of_, amount_ - amount);
  amount_ = amount;
  return true;
}

HttpLanes::HttpLanes(std::size_t connections, std::size_t memory_bytes)
    : connections_(connection_bounds(connections)),
      memory_({.limit = memory_bytes, .each = memory_bytes / 4, .reserve = memory_bytes / 2}),
      stranger_connections_({.limit = std::max(kLeast, connections / 4),
                             .each = std::clamp(connections / 16, kLeast, kAddressConnections)}),
      stranger_memory_({.limit = memory_bytes / 8, .each = std::min(memory_bytes / 8, kAddressMemory)}) {}

bool HttpLanes::take(const HttpCaller& caller, HttpHold::Of of, std::size_t amount) {
  const bool connection = of == HttpHold::Of::kConnections;
  FairShare& all = connection ? connections_ : memory_;
  if (caller.lane != Lane::kStranger) {
    const std::size_t most = connection ? kMemberConnections : all.each();
    if (caller.lane == Lane::kMember && (amount > most || all.held(caller.name) > most - amount))
      return false;
    return all.take(caller.name, amount, standing_of(caller.lane));
  }
  FairShare& strangers = connection ? stranger_connections_ : stranger_memory_;
  if (!strangers.take(caller.name, amount))
    return false;
  if (all.take(kStrangers, amount))
    return true;
  strangers.give(caller.name, amount);
  return false;
}

void HttpLanes::give(const HttpCaller& caller, HttpHold::Of of, std::size_t amount) {
  const bool connection = of == HttpHold::Of::kConnections;
  FairShare& all = connection ? connections_ : memory_;
  if (caller.lane == Lane::kStranger) {
    (connection ? stranger_connections_ : stranger_memory_).give(caller.name, amount);
    all.give(kStrangers, amount);
  } else {
    all.give(caller.name, amount);
  }
  if (!connection && on_memory_freed)
    on_memory_freed();
}

std::string HttpLanes::who_makes_room_for(const HttpCaller& caller) const {
  const FairShare& share = caller.lane == Lane::kStranger ? stranger_connections_ : connections_;
  const std::size_t own = share.held(caller.name);
  const std::size_t own_most = caller.lane == Lane::kMember ? kMemberConnections : share.each();
  if (caller.lane != Lane::kReserved && own >= own_most)
    return caller.name;
  std::string_view greedy = share.greediest();
  const std::size_t most = share.held(greedy);
  if (greedy == kStrangers)
    greedy = stranger_connections_.greediest();
  // Among equals, somebody else goes only for one who has clearly less.
  if (!greedy.empty() && (standing_of(caller.lane) == FairShare::Standing::kReserved || most > own + 1))
    return std::string(greedy);
  return own > 0 ? caller.name : std::string();
}

}  // namespace lockstep
