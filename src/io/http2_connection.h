// One connection of HTTP/2, beside the sessions of HTTP/1.1 (http_session.h) and behind the same handlers: many
// requests at once, each answered whole or as a stream of its own. nghttp2 does frames, header compression and flow
// control; this fills our request type and holds the limits. Upgrades are HTTP/1.1's.
// Source: RFC 9113; nghttp2.org/documentation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/http_lanes.h"
#include "ports/http.h"

struct nghttp2_session;

namespace lockstep {

class Http2Connection : public std::enable_shared_from_this<Http2Connection> {
 public:
  static constexpr std::uint32_t kStreamsMax = 1000;         // at once
  static constexpr std::uint32_t kResetsEach = 200;          // that a client may have begun and given up, at once
  static constexpr std::uint32_t kResetsPerSecond = 100;     // and for longer
  static constexpr std::size_t kStreamAnswerCost = 4 << 10;  // of memory, of an answer that goes on and is read
  static constexpr std::size_t kUnsentMax = 1 << 20;         // of the connection; then answers wait in their streams

  struct World {
    EventLoop& loop;
    const HttpHandler& handler;
    const HttpLimits& limits;
    std::shared_ptr<HttpLanes> lanes;
    HttpCaller caller;
    Peer peer;
    std::function<HttpCaller(const std::string& user)> prove;  // who the connection is counted as from now on
    std::function<void(std::string)> write;                    // to the connection
    std::function<std::size_t()> unsent;                       // of what was written
    std::function<void()> close;  // after what was written; called once, perhaps from inside feed()
    std::int64_t now_tick = 0;    // of the sweeps: silence counts from here
  };

  explicit Http2Connection(World world);
  ~Http2Connection();

  void feed(std::string_view bytes);
  void drained();  // what was written has left
  void gone();     // the other end is not there any more: nobody is told anything from now on
  // Once per tick. silent_ticks: since when nothing came. Closes what is idle, or too slow.
  void sweep(std::int64_t now_tick, Duration tick);
  bool is_idle() const { return streams_.empty(); }

 private:
  class Exchange;
  class Body;
  struct Stream2;
  struct Calls;  // of nghttp2

  bool is_counted() const;
  Stream2* find(std::int32_t id);
  void head_read(std::int32_t id);
  void body_came(std::int32_t id, std::string_view bytes);
  void request_read(std::int32_t id);
  void stream_closed(std::int32_t id);
  void dispatch_ready();
  void dispatch(std::int32_t id);
  void answer(std::int32_t id, HttpResponse response);
  bool begin_answer(std::int32_t id, const HttpResponse& head, bool has_body);
  std::unique_ptr<Stream> stream(std::int32_t id, HttpResponse head);
  void reset(std::int32_t id, std::uint32_t code);
  void resume(std::int32_t id);
  void pump();
  void fail(std::uint32_t code, const char* why);
  void end();

  World world_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::shared_ptr<Stream2>> streams_;
  std::deque<std::int32_t> ready_;  // requests that are complete
  std::int64_t tick_ = 0, active_tick_ = 0, unread_tick_ = 0;
  std::size_t written_ = 0;  // since the peer had read everything last
  bool busy_ = false;        // within nghttp2
  bool going_ = false;       // the last words are said: what is open comes to its end
  bool over_ = false, yielding_ = false;
  std::vector<std::int32_t> drained_;  // streams that go on, and whose writer has not heard that all was taken
};

}  // namespace lockstep
