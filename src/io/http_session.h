// One connection of the server: requests in, answers out in the order of the requests, whenever each becomes ready.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "io/fd_stream.h"
#include "io/http_parser.h"
#include "ports/http.h"

namespace lockstep {

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  struct Host {  // what a session needs of its server; outlives it, or is detached
    HttpHandler handler;
    HttpLimits limits;
    std::function<void(HttpSession*)> remove;
    std::function<void(const std::string&)> notice;
    std::int64_t now_tick = 0;
  };

  HttpSession(Host& host, std::unique_ptr<FdStream> stream, Peer peer, std::string from);
  ~HttpSession();
  void start();
  void detach();  // the server goes away: later answers fall on the floor

  // Once per tick: closes what has been silent for too long.
  void sweep(std::int64_t header_ticks, std::int64_t idle_ticks);

 private:
  class Exchange;
  struct Slot {
    std::weak_ptr<Exchange> exchange;
    std::string head, body;
    bool ready = false, last = false, is_head = false;
  };

  void process();
  bool parse_one();
  void dispatch();
  void refuse(int status, const std::string& why);
  bool blocked() const;
  void answer(std::uint64_t number, HttpResponse response);
  std::unique_ptr<Stream> upgrade(std::uint64_t number, const std::string& protocol);
  void send_ready();
  void closed();
  void end();

  Host* host_;
  std::unique_ptr<FdStream> stream_;
  Peer peer_;
  std::string from_;
  HttpParser parser_;
  std::string in_;            // received
  std::size_t in_used_ = 0;   // of it, parsed
  std::deque<Slot> slots_;    // requests without a sent answer
  std::uint64_t first_ = 0;   // number of slots_.front()
  std::int64_t active_tick_;  // last byte of a body, last answer, or the connection itself
  std::size_t unsent_before_ = 0;
  bool peer_known_ = false, processing_ = false, paused_ = false;
  bool upgrading_ = false;  // the last request may take the connection over: parse no further
  bool finishing_ = false;  // no further requests; closes when the slots are empty
  bool continued_ = false;  // "100 Continue" was sent for the request being read
};

}  // namespace lockstep
