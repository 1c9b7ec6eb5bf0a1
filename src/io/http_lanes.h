// HttpLanes: who calls a server, and how much of it each caller may hold: connections, and memory for requests under
// way and answers that nobody has read yet. No sockets: the server asks, and makes room where it is told to.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/fair_share.h"
#include "ports/http.h"

namespace lockstep {

struct HttpCaller {
  enum class Lane : unsigned char {
    kReserved,  // root, the server's own user, an administrator's certificate: bounded by the server alone
    kMember,    // a node's certificate: a fixed number of connections, which others cannot take
    kUser,      // any other local user, a user's certificate
    kStranger,  // an address that has shown no certificate
  } lane = Lane::kStranger;
  std::string name;  // "uid 1001", "node:n1", "10.0.0.7"; of IPv6 the first 64 bits
};
HttpCaller caller_of(const Peer& peer, std::uint32_t own_uid);

class HttpLanes;

// What a caller holds; given back when this is destroyed. May outlive the server.
class HttpHold {
 public:
  enum class Of : unsigned char { kConnections, kMemory };
  HttpHold() = default;
  HttpHold(std::shared_ptr<HttpLanes> lanes, HttpCaller caller, Of of)
      : lanes_(std::move(lanes)), caller_(std::move(caller)), of_(of) {}
  HttpHold(HttpHold&& from) noexcept { *this = std::move(from); }
  HttpHold& operator=(HttpHold&& from) noexcept;
  ~HttpHold() { (void)resize(0); }

  // False: the caller may not hold that much now, and nothing has changed. Smaller is always granted.
  bool resize(std::size_t amount);
  std::size_t amount() const { return amount_; }
  const HttpCaller& caller() const { return caller_; }

 private:
  std::shared_ptr<HttpLanes> lanes_;
  HttpCaller caller_;
  Of of_ = Of::kMemory;
  std::size_t amount_ = 0;
};

class HttpLanes : public std::enable_shared_from_this<HttpLanes> {
 public:
  static constexpr std::size_t kMemberConnections = 64;  // of one node
  HttpLanes(std::size_t connections, std::size_t memory_bytes);

  HttpHold hold(HttpCaller caller, HttpHold::Of of) { return {shared_from_this(), std::move(caller), of}; }
  // Whose connection has to go so that this caller may have one more; empty: nobody's, it has to be refused itself.
  std::string who_makes_room_for(const HttpCaller& caller) const;
  std::size_t connections() const { return connections_.total(); }
  std::size_t memory_each() const { return memory_.each(); }  // the most that one caller may have under way

  // Called when memory is given back; not from inside a call of this class that may still refuse.
  std::function<void()> on_memory_freed;

 private:
  friend class HttpHold;
  bool take(const HttpCaller& caller, HttpHold::Of of, std::size_t amount);
  void give(const HttpCaller& caller, HttpHold::Of of, std::size_t amount);

  // Strangers together are one holder of each; which of them holds how much is a share of their own.
  FairShare connections_, memory_;
  FairShare stranger_connections_, stranger_memory_;
};

}  // namespace lockstep
