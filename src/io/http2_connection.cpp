#include "io/http2_connection.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/text.h"
#include "io/http_parser.h"
#include "io/http_refusals.h"

namespace lockstep {

namespace {

constexpr std::int32_t kConnectionWindow = 4 << 20;  // of bodies that come, over all streams
constexpr std::uint32_t kStreamWindow = 256 << 10;
constexpr std::uint32_t kFrameMax = 16 << 10;
constexpr int kRequestsInTurn = 32;  // before the loop's other work
constexpr auto kTurnTime = std::chrono::milliseconds(2);

std::string number_text(std::size_t n) {
  char text[24];
  return {text, std::to_chars(text, text + sizeof text, n).ptr};
}

// Headers that say how an HTTP/1.1 connection goes on: there is no such thing here.
bool is_of_connection(std::string_view name) {
  return name == "connection" || name == "transfer-encoding" || name == "keep-alive" || name == "upgrade" ||
         name == "proxy-connection" || name == "content-length" || name == "content-type";
}

nghttp2_nv pair_of(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct Http2Connection::Stream2 {
  std::int32_t id = 0;
  HttpRequest request;
  std::size_t head_bytes = 0, body_max = 0;
  std::string target;
  bool head_done = false, bad = false, asked = false, answered = false;
  bool refused = false;  // answered before its request was complete: what still comes is dropped
  HttpHold memory;       // of the request while it comes, then of its answer
  std::weak_ptr<Exchange> exchange;
  Body* body = nullptr;  // of an answer that goes on; null: there is none, or who wrote it has let it go

  std::deque<std::string> out;  // of the answer's body
  std::size_t out_at = 0, out_bytes = 0;
  bool out_ends = false, deferred = false;
  std::int64_t begun_tick = 0, moved_tick = 0;
};

// An answer's body that is written as it comes.
class Http2Connection::Body final : public Stream {
 public:
  Body(std::weak_ptr<Http2Connection> connection, std::weak_ptr<Stream2> stream)
      : connection_(std::move(connection)), stream_(std::move(stream)) {}
  ~Body() override { Body::cut(); }
  void on_data(std::function<void(std::string_view)>) override {}
  void on_close(std::function<void()> callback) override { closed_ = std::move(callback); }
  void write(std::string bytes) override {
    const auto stream = stream_.lock();
    const auto connection = connection_.lock();
    if (!stream || !connection || bytes.empty() || gone_)
      return;
    stream->out_bytes += bytes.size();
    stream->out.push_back(std::move(bytes));
    // What is not read is its caller's memory: where that is at its end, so is the answer.
    if (connection->is_counted() && stream->out_bytes > stream->memory.amount() &&
        !stream->memory.resize(2 * stream->out_bytes))
      return cut();
    connection->resume(stream->id);
  }
  std::size_t unsent() const override {
    const auto stream = stream_.lock();
    return stream && !gone_ ? stream->out_bytes : 0;
  }
  void on_drained(std::function<void()> callback) override { drained_ = std::move(callback); }
  void pause(bool) override {}
  void close() override {
    const auto connection = connection_.lock();
    if (const auto stream = let_go(); stream && connection) {
      stream->out_ends = true;
      connection->resume(stream->id);
    }
  }
  void cut() override {
    const auto connection = connection_.lock();
    if (const auto stream = let_go(); stream && connection)
      connection->reset(stream->id, NGHTTP2_INTERNAL_ERROR);
  }

  // As the connection tells. Both may destroy this.
  void tell_drained() {
    if (const auto callback = drained_)
      callback();
  }
  void tell_closed() {
    gone_ = true;
    if (const auto callback = std::move(closed_))
      callback();
  }

 private:
  // Null: it was let go before.
  std::shared_ptr<Stream2> let_go() {
    const auto stream = stream_.lock();
    if (stream && stream->body == this)
      stream->body = nullptr;
    return std::exchange(gone_, true) ? nullptr : stream;
  }

  std::weak_ptr<Http2Connection> connection_;
  std::weak_ptr<Stream2> stream_;
  std::function<void()> closed_, drained_;
  bool gone_ = false;
};

class Http2Connection::Exchange final : public HttpExchange {
 public:
  Exchange(std::weak_ptr<Http2Connection> connection, std::int32_t id, HttpRequest request, HttpHold memory)
      : connection_(std::move(connection)), id_(id), request_(std::move(request)), memory_(std::move(memory)) {}
  ~Exchange() override {
    if (!answered_)
      respond({.status = 500, .body = error_body("internal", "the request was dropped without an answer")});
  }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    if (const auto connection = take())
      connection->answer(id_, std::move(response));
  }
  std::unique_ptr<Stream> stream(HttpResponse head) override {
    const auto connection = take();
    return connection ? connection->stream(id_, std::move(head)) : nullptr;
  }
  std::unique_ptr<Stream> upgrade(const std::string& protocol) override {
    if (const auto connection = take())
      connection->answer(id_, {.status = 400,
                               .body = error_body("invalid", format("HTTP/2 has no upgrade to {}: ask again over "
                                                                    "HTTP/1.1",
                                                                    protocol))});
    return nullptr;
  }
  void on_gone(std::function<void()> callback) override {
    if (left_ && callback)
      callback();
    else
      gone_ = std::move(callback);
  }
  void tell_gone() {
    left_ = true;
    if (const auto callback = std::exchange(gone_, nullptr))
      callback();
  }

 private:
  std::shared_ptr<Http2Connection> take() {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    gone_ = nullptr;
    return connection_.lock();
  }

  std::weak_ptr<Http2Connection> connection_;
  std::int32_t id_;
  HttpRequest request_;
  HttpHold memory_;  // of the request
  std::function<void()> gone_;
  bool answered_ = false, left_ = false;
};

// What nghttp2 calls. It may be told what to send from there, and is not asked to send.
struct Http2Connection::Calls {
  static Http2Connection& self(void* own) { return *static_cast<Http2Connection*>(own); }

  static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* own) {
    auto& connection = self(own);
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
      return 0;
    auto stream = std::make_shared<Stream2>();
    stream->id = frame->hd.stream_id;
    stream->memory = connection.world_.lanes->hold(connection.world_.caller, HttpHold::Of::kMemory);
    stream->begun_tick = stream->moved_tick = connection.tick_;
    connection.streams_[frame->hd.stream_id] = std::move(stream);
    return 0;
  }

  static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                    const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* own) {
    auto& connection = self(own);
    Stream2* const stream = connection.find(frame->hd.stream_id);
    if (!stream || stream->head_done)
      return 0;  // trailers say nothing to us
    stream->head_bytes += name_size + value_size + 32;
    if (stream->head_bytes > connection.world_.limits.header_bytes)
      return 0;  // judged when the head is complete
    const std::string_view key(reinterpret_cast<const char*>(name), name_size);
    std::string text(trim({reinterpret_cast<const char*>(value), value_size}));
    if (key == ":method") {
      stream->request.method = std::move(text);
    } else if (key == ":path") {
      stream->target = std::move(text);
    } else if (key == ":authority") {
      stream->request.headers["host"] = std::move(text);
    } else if (!key.starts_with(':')) {
      auto& known = stream->request.headers[std::string(key)];
      known += (known.empty() ? "" : key == "cookie" ? "; " : ", ") + text;
    }
    return 0;
  }

  static int frame(nghttp2_session*, const nghttp2_frame* frame, void* own) {
    auto& connection = self(own);
    connection.active_tick_ = connection.tick_;
    const std::int32_t id = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
      connection.head_read(id);
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
      connection.request_read(id);
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE)
      if (Stream2* stream = connection.find(id))
        stream->moved_tick = connection.tick_;
    return 0;
  }

  static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes, std::size_t size,
                  void* own) {
    self(own).body_came(id, {reinterpret_cast<const char*>(bytes), size});
    return 0;
  }

  static int close(nghttp2_session*, std::int32_t id, std::uint32_t, void* own) {
    self(own).stream_closed(id);
    return 0;
  }

  static ssize_t read(nghttp2_session*, std::int32_t id, std::uint8_t* to, std::size_t room, std::uint32_t* flags,
                      nghttp2_data_source*, void* own) {
    auto& connection = self(own);
    Stream2* const stream = connection.find(id);
    if (!stream)
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    std::size_t done = 0;
    while (done < room && !stream->out.empty()) {
      const std::string& piece = stream->out.front();
      const std::size_t n = std::min(room - done, piece.size() - stream->out_at);
      std::copy_n(piece.data() + stream->out_at, n, reinterpret_cast<char*>(to) + done);
      done += n;
      stream->out_at += n;
      stream->out_bytes -= n;
      if (stream->out_at == piece.size()) {
        stream->out_at = 0;
        stream->out.pop_front();
      }
    }
    if (done > 0)
      stream->moved_tick = connection.tick_;
    if (stream->body && stream->out.empty() && stream->memory.amount() > kStreamAnswerCost)
      (void)stream->memory.resize(kStreamAnswerCost);
    if (stream->out.empty() && stream->out_ends)
      *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (done > 0 && stream->out.empty() && stream->body)
      connection.drained_.push_back(id);
    if (done == 0 && !stream->out_ends) {
      stream->deferred = true;
      return NGHTTP2_ERR_DEFERRED;
    }
    return static_cast<ssize_t>(done);
  }
};

Http2Connection::Http2Connection(World world)
    : world_(std::move(world)), tick_(world_.now_tick), active_tick_(tick_), unread_tick_(tick_) {
  nghttp2_session_callbacks* calls = nullptr;
  CHECK(nghttp2_session_callbacks_new(&calls) == 0);
  nghttp2_session_callbacks_set_on_begin_headers_callback(calls, Calls::begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(calls, Calls::header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(calls, Calls::frame);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, Calls::data);
  nghttp2_session_callbacks_set_on_stream_close_callback(calls, Calls::close);
  nghttp2_option* options = nullptr;
  CHECK(nghttp2_option_new(&options) == 0);
  nghttp2_option_set_stream_reset_rate_limit(options, kResetsEach, kResetsPerSecond);
  nghttp2_option_set_max_send_header_block_length(options, 256 << 10);
  nghttp2_option_set_no_closed_streams(options, 1);
  // Spaces around a value, which some clients send (Go's do, of a name that ends with one), are no reason to refuse a
  // request: they are left out, as over HTTP/1.1.
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);
  CHECK(nghttp2_session_server_new2(&session_, calls, this, options) == 0);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(calls);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kStreamsMax},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kFrameMax},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(world_.limits.header_bytes)},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  // A server says nothing of pushes.
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings) - 1);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

// A node's connections are few, and counted; administrators' are not charged.
bool Http2Connection::is_counted() const {
  return world_.caller.lane == HttpCaller::Lane::kUser || world_.caller.lane == HttpCaller::Lane::kStranger;
}

Http2Connection::Stream2* Http2Connection::find(std::int32_t id) {
  const auto at = streams_.find(id);
  return at == streams_.end() ? nullptr : at->second.get();
}

void Http2Connection::feed(std::string_view bytes) {
  if (over_)
    return;
  const auto keep = shared_from_this();
  active_tick_ = tick_;
  busy_ = true;
  const ssize_t took =
      nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  busy_ = false;
  if (took < 0)
    return fail(took == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
                nghttp2_strerror(static_cast<int>(took)));
  dispatch_ready();
  pump();
}

void Http2Connection::head_read(std::int32_t id) {
  const auto known = streams_.find(id);
  if (known == streams_.end())
    return;
  const std::shared_ptr<Stream2> stream = known->second;  // room for the connection may be made of itself
  stream->head_done = true;
  HttpRequest& request = stream->request;
  request.peer = world_.peer;
  const auto refuse = [&](int status, const std::string& why) {
    stream->refused = true;
    answer(id, {.status = status, .body = error_body("invalid", why)});
  };
  if (stream->head_bytes > world_.limits.header_bytes)
    return refuse(431, format("not a valid HTTP request: its head has more than {} bytes", world_.limits.header_bytes));
  if (request.method == "CONNECT" || !split_target(stream->target, request))
    return refuse(400, "not a valid HTTP request: its target cannot be");
  const HttpLimits& limits = world_.limits;
  std::size_t bound = limits.body_bound ? limits.body_bound(request) : limits.body_bytes;
  if (world_.peer.how == Peer::How::kNobody) {
    const std::string proven = limits.proven_user ? limits.proven_user(request) : std::string();
    if (proven.empty()) {
      bound = std::min(bound, limits.stranger_body_bytes);
    } else {
      world_.caller = world_.prove(proven);
      if (over_)
        return;
      stream->memory = world_.lanes->hold(world_.caller, HttpHold::Of::kMemory);
    }
  }
  stream->body_max = bound;
  const auto length = request.headers.find("content-length");
  const auto announced = length == request.headers.end() ? std::nullopt : parse_uint(length->second);
  if (announced.value_or(0) > bound)
    return refuse(413, format("the body has {} bytes, and {} {} takes at most {} from you", *announced, request.method,
                              request.path, bound));
  if (!stream->memory.resize(cost_of(request) + announced.value_or(0)))
    refuse(503, "too much of yours is under way: send it again later");
}

void Http2Connection::body_came(std::int32_t id, std::string_view bytes) {
  Stream2* const stream = find(id);
  if (!stream || stream->refused)
    return;
  std::string& body = stream->request.body;
  stream->moved_tick = tick_;
  if (body.size() + bytes.size() > stream->body_max) {
    stream->refused = true;
    return answer(id,
                  {.status = 413,
                   .body = error_body("invalid", format("{} {} takes at most {} bytes from you", stream->request.method,
                                                        stream->request.path, stream->body_max))});
  }
  body.append(bytes);
  const std::size_t cost = cost_of(stream->request);
  if (cost > stream->memory.amount() && !stream->memory.resize(cost + cost / 2)) {
    stream->refused = true;
    answer(id, come_again("too much of yours is under way: send it again later"));
  }
}

void Http2Connection::request_read(std::int32_t id) {
  Stream2* const stream = find(id);
  if (!stream || stream->refused || std::exchange(stream->asked, true))
    return;
  ready_.push_back(id);
}

// Handlers answer from inside, and nghttp2 is not called from within itself: requests wait until it is done.
void Http2Connection::dispatch_ready() {
  if (yielding_)
    return;
  const auto end = std::chrono::steady_clock::now() + kTurnTime;
  for (int done = 0; !ready_.empty() && !over_; ++done) {
    if (done == kRequestsInTurn || std::chrono::steady_clock::now() >= end) {
      yielding_ = true;
      world_.loop.post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self)
          return;
        self->yielding_ = false;
        self->dispatch_ready();
        self->pump();
      });
      return;
    }
    const std::int32_t id = ready_.front();
    ready_.pop_front();
    dispatch(id);
  }
}

void Http2Connection::dispatch(std::int32_t id) {
  Stream2* const stream = find(id);
  if (!stream)
    return;  // given up meanwhile
  HttpHold memory = world_.lanes->hold(world_.caller, HttpHold::Of::kMemory);
  (void)stream->memory.resize(0);
  const bool fits = memory.resize(cost_of(stream->request));
  const auto exchange = std::make_shared<Exchange>(weak_from_this(), id, std::move(stream->request), std::move(memory));
  stream->request.method = exchange->request().method;  // HEAD has no body
  stream->exchange = exchange;
  if (fits)
    world_.handler(exchange);
  else
    exchange->respond(come_again("too many of your requests are under way: send it again later"));
}

// False: nobody is there to be answered.
bool Http2Connection::begin_answer(std::int32_t id, const HttpResponse& head, bool has_body) {
  Stream2* const stream = find(id);
  if (over_ || !stream || std::exchange(stream->answered, true))
    return false;
  const std::string status = number_text(static_cast<std::size_t>(head.status));
  const std::string length = number_text(head.body.size());
  std::vector<std::pair<std::string, std::string>> said;
  const bool may_have_body = head.status != 204 && head.status != 304;
  if (may_have_body && !head.content_type.empty())
    said.emplace_back("content-type", head.content_type);
  if (may_have_body && !(has_body && head.body.empty() && stream->body))
    said.emplace_back("content-length", length);
  for (const auto& [name, value] : head.headers)
    if (std::string key = lower(name); !is_of_connection(key))
      said.emplace_back(std::move(key), value);
  // A control character would be refused there, and the answer with it.
  for (auto& [name, value] : said)
    std::ranges::replace_if(
        value, [](char c) { return static_cast<unsigned char>(c) < 32 && c != '\t'; }, ' ');
  std::vector<nghttp2_nv> pairs{pair_of(":status", status)};
  for (const auto& [name, value] : said) pairs.push_back(pair_of(name, value));
  nghttp2_data_provider provider{.source = {}, .read_callback = Calls::read};
  if (nghttp2_submit_response(session_, id, pairs.data(), pairs.size(), has_body ? &provider : nullptr) != 0) {
    reset(id, NGHTTP2_INTERNAL_ERROR);
    return false;
  }
  return true;
}

void Http2Connection::answer(std::int32_t id, HttpResponse response) {
  Stream2* const stream = find(id);
  if (over_ || !stream)
    return;
  if (!stream->memory.resize(response.body.size())) {
    const std::size_t most = world_.lanes->memory_each();
    response = response.body.size() > most
                   ? HttpResponse{.status = 507,
                                  .body = error_body("exhausted",
                                                     format("the answer has {} bytes, more than {}: ask for less of it",
                                                            response.body.size(), most))}
                   : come_again("answers that you have not read yet fill your share of memory: read them first");
    (void)stream->memory.resize(response.body.size());
  }
  const bool has_body =
      !response.body.empty() && stream->request.method != "HEAD" && response.status != 204 && response.status != 304;
  if (!begin_answer(id, response, has_body))
    return;
  if (has_body) {
    stream->out_bytes = response.body.size();
    stream->out.push_back(std::move(response.body));
  }
  stream->out_ends = true;
  stream->moved_tick = tick_;
  pump();
}

std::unique_ptr<Stream> Http2Connection::stream(std::int32_t id, HttpResponse head) {
  Stream2* const stream = find(id);
  if (over_ || !stream)
    return nullptr;
  head.body.clear();
  if (stream->request.method == "HEAD") {
    answer(id, std::move(head));
    return nullptr;
  }
  if (!stream->memory.resize(is_counted() ? kStreamAnswerCost : 0)) {
    answer(id, come_again("too many of your streams are open: close some, or try again later"));
    return nullptr;
  }
  auto body = std::make_unique<Body>(weak_from_this(), streams_.at(id));
  stream->body = body.get();
  if (!begin_answer(id, head, true)) {
    if (Stream2* left = find(id))
      left->body = nullptr;
    return nullptr;
  }
  stream->moved_tick = tick_;
  pump();
  return body;
}

void Http2Connection::reset(std::int32_t id, std::uint32_t code) {
  if (over_)
    return;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, code);
  pump();
}

void Http2Connection::resume(std::int32_t id) {
  Stream2* const stream = find(id);
  if (over_ || !stream)
    return;
  stream->moved_tick = stream->out_bytes > 0 && stream->deferred ? tick_ : stream->moved_tick;
  if (std::exchange(stream->deferred, false))
    nghttp2_session_resume_data(session_, id);
  pump();
}

void Http2Connection::stream_closed(std::int32_t id) {
  const auto at = streams_.find(id);
  if (at == streams_.end())
    return;
  const std::shared_ptr<Stream2> stream = std::move(at->second);
  streams_.erase(at);
  active_tick_ = tick_;
  if (!stream->body && (stream->answered || stream->exchange.expired()))
    return;
  // Who is told may do anything: not from within nghttp2.
  world_.loop.post([weak = weak_from_this(), stream] {
    const auto self = weak.lock();
    if (self && stream->body)
      stream->body->tell_closed();
    else if (const auto exchange = stream->exchange.lock(); exchange && !stream->answered)
      exchange->tell_gone();
  });
}

// What nghttp2 has to say goes out, as far as the connection takes it.
void Http2Connection::pump() {
  if (busy_ || over_)
    return;
  const auto keep = shared_from_this();
  while (!over_ && world_.unsent() < kUnsentMax) {
    const std::uint8_t* bytes = nullptr;
    busy_ = true;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    busy_ = false;
    if (size < 0)
      return fail(NGHTTP2_INTERNAL_ERROR, nghttp2_strerror(static_cast<int>(size)));
    if (size == 0)
      break;
    written_ += static_cast<std::size_t>(size);
    world_.write(std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)));
  }
  if (!drained_.empty())
    world_.loop.post([weak = weak_from_this(), all = std::exchange(drained_, {})] {
      const auto self = weak.lock();
      for (const std::int32_t id : all)
        if (Stream2* stream = self && !self->over_ ? self->find(id) : nullptr; stream && stream->body)
          stream->body->tell_drained();
    });
  if (!over_ && nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0)
    end();
}

void Http2Connection::drained() {
  written_ = 0;
  unread_tick_ = tick_;
  pump();
}

void Http2Connection::fail(std::uint32_t code, const char* why) {
  if (over_)
    return;
  const std::string_view text(why);
  if (!std::exchange(going_, true)) {
    nghttp2_session_terminate_session(session_, code);
    const std::uint8_t* bytes = nullptr;
    for (ssize_t size = 1; size > 0 && world_.unsent() < kUnsentMax;) {
      busy_ = true;
      size = nghttp2_session_mem_send(session_, &bytes);
      busy_ = false;
      if (size > 0)
        world_.write(std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)));
    }
  }
  end();
}

void Http2Connection::end() {
  if (over_)
    return;
  const auto keep = shared_from_this();
  gone();
  world_.close();
}

void Http2Connection::gone() {
  if (std::exchange(over_, true))
    return;
  std::vector<std::shared_ptr<Stream2>> all;
  for (auto& [id, stream] : streams_) all.emplace_back(std::move(stream));
  streams_.clear();
  ready_.clear();
  for (const auto& stream : all) {
    if (stream->body)
      stream->body->tell_closed();
    else if (const auto exchange = stream->exchange.lock(); exchange && !stream->answered)
      exchange->tell_gone();
  }
}

void Http2Connection::sweep(std::int64_t now_tick, Duration tick) {
  tick_ = now_tick;
  if (over_)
    return;
  const auto keep = shared_from_this();
  const auto ticks = [&](Duration time) { return time.us / tick.us; };
  const auto ticks_for = [&](std::size_t bytes) {
    return static_cast<std::int64_t>(bytes / std::max<std::size_t>(1, world_.limits.bytes_per_second_min)) * 1'000'000 /
           tick.us;
  };
  const HttpLimits& limits = world_.limits;
  const std::size_t unsent = world_.unsent();
  if (unsent == 0) {
    written_ = 0;
    unread_tick_ = now_tick;
  } else if (now_tick - unread_tick_ > ticks(limits.drain_timeout) + ticks_for(written_ - std::min(written_, unsent))) {
    return end();  // it does not read, or hardly
  }
  std::vector<std::int32_t> slow;
  for (const auto& [id, stream] : streams_) {
    const bool comes =
        !stream->asked && !stream->refused &&
        now_tick - stream->begun_tick > ticks(limits.header_timeout) + ticks_for(stream->request.body.size());
    // Of what goes on whoever writes it minds whether it is read.
    const bool leaves = stream->answered && !stream->body && stream->out_bytes > 0 &&
                        now_tick - stream->moved_tick > ticks(limits.drain_timeout);
    if (comes || leaves)
      slow.push_back(id);
  }
  for (const std::int32_t id : slow) reset(id, NGHTTP2_CANCEL);
  if (!over_ && streams_.empty() && now_tick - active_tick_ > ticks(limits.idle_timeout))
    fail(NGHTTP2_NO_ERROR, "");
}

}  // namespace lockstep
