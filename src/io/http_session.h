// One connection of the server: requests in, answers out in the order of the requests, whenever each becomes ready.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "io/fd_stream.h"
#include "io/http2_connection.h"
#include "io/http_lanes.h"
#include "io/http_parser.h"
#include "ports/http.h"

namespace lockstep {

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  struct Host {  // what a session needs of its server; outlives it, or is detached
    EventLoop& loop;
    HttpHandler handler;
    HttpLimits limits;
    std::shared_ptr<HttpLanes> lanes;
    std::function<void(HttpSession*)> remove;
    // A certificate was shown: counts the connection anew. False: its holder has too many already.
    std::function<bool(HttpSession*, const HttpCaller&)> introduce;
    std::function<void(HttpSession*)> wait_for_room;  // calls look_for_room() when memory has been freed
    std::function<void(const std::string&)> notice;
    std::int64_t now_tick = 0;
    Duration tick;
    std::uint32_t own_uid = 0;

    std::int64_t ticks(Duration time) const { return time.us / tick.us; }
    // How long a transfer of so many bytes may take beyond its first timeout.
    std::int64_t ticks_for(std::size_t bytes) const {
      const std::size_t per_second = std::max<std::size_t>(1, limits.bytes_per_second_min);
      return static_cast<std::int64_t>(bytes / per_second) * 1'000'000 / tick.us;
    }
  };

  // place: what counts the connection against its caller, for as long as the descriptor is open.
  HttpSession(Host& host, std::unique_ptr<FdStream> stream, Peer peer, std::string from,
              std::shared_ptr<HttpHold> place);
  ~HttpSession();
  void start();
  void detach();  // the server goes away: later answers fall on the floor

  void sweep();          // once per tick: closes what has been silent or slow for too long
  void look_for_room();  // memory was freed
  // Idle, or in the middle of a request: nobody here waits for an answer that is ours to give.
  bool is_idle() const { return two_ ? two_->is_idle() : slots_.empty(); }
  void make_way() { closed(); }
  const HttpCaller& caller() const { return place_->caller(); }
  HttpHold& place() { return *place_; }
  std::uint64_t number = 0;  // given by the server: the older, the smaller

 private:
  class Exchange;
  struct Slot {
    std::weak_ptr<Exchange> exchange;
    std::string head, body;
    bool ready = false, last = false, is_head = false, takes_chunks = false;
  };
  class Turn;

  void process();
  void begin_two();
  void count_received();
  bool parse_one();
  bool head_read();
  bool ask_for_body();
  void dispatch();
  bool learn_peer();
  std::string proven_by(const HttpRequest& head) const;
  bool count_as(const std::string& user);
  void refuse(int status, const std::string& why);
  bool blocked() const;
  void answer(std::uint64_t number, HttpResponse response);
  std::unique_ptr<Stream> upgrade(std::uint64_t number, const std::string& protocol,
                                  const std::map<std::string, std::string>& headers);
  std::unique_ptr<Stream> stream(std::uint64_t number, HttpResponse head);
  bool take_stream_memory(std::uint64_t number);
  std::unique_ptr<FdStream> leave();
  void decline(std::uint64_t number, const std::string& protocol, bool asked);
  void send_ready();
  void drained();
  void go_on_later();
  void sweep_unread();
  void closed();
  void end();

  Host* host_;
  std::unique_ptr<FdStream> stream_;
  Peer peer_;
  std::string from_;
  HttpParser parser_;
  std::shared_ptr<Http2Connection> two_;  // null: it speaks HTTP/1.1, which the rest of this is for
  std::shared_ptr<HttpHold> place_;
  HttpHold receiving_;                   // memory for what has come, and for the body that was announced
  std::shared_ptr<HttpHold> answering_;  // memory for answers until the peer has them
  std::string in_;                       // received
  std::size_t in_used_ = 0;              // of it, parsed
  std::deque<Slot> slots_;               // requests without a sent answer
  std::uint64_t first_ = 0;              // number of slots_.front()
  std::size_t slot_bytes_ = 0;           // of ready answers in slots_
  std::int64_t active_tick_;             // first byte of a request, last answer, or the connection itself
  std::int64_t unread_tick_ = 0;         // since when the peer has had something to read
  std::size_t written_ = 0;              // since then
  bool peer_known_ = false, processing_ = false, paused_ = false;
  bool upgrading_ = false;   // the last request may take the connection over: parse no further
  bool finishing_ = false;   // no further requests; closes when the slots are empty
  bool continued_ = false;   // "100 Continue" was sent for the request being read
  bool yielding_ = false;    // others of the loop come first
  bool needs_room_ = false;  // for the body that was announced: not read until there is
};

}  // namespace lockstep
