#include "io/http_session.h"

#include <charconv>
#include <chrono>

#include "base/text.h"
#include "io/http2_connection.h"
#include "io/http_refusals.h"

namespace lockstep {

namespace {

constexpr std::size_t kPipelineMax = 256;      // unanswered requests of one connection; then we stop reading
constexpr std::size_t kKeptBuffer = 16 << 10;  // an idle connection keeps no more
constexpr std::size_t kJoinBytes = 32 << 10;   // smaller bodies travel in one piece with their head
constexpr int kRequestsPerTurn = 32;           // of one connection, before the loop's other work
constexpr auto kTurn = std::chrono::milliseconds(2);
constexpr std::size_t kStreamCost = 128 << 10;  // of an upgraded connection, for what is under way on it

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Entity";
    case 426: return "Upgrade Required";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Status";
  }
}

void append_number(std::string& out, std::size_t n) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, n).ptr);
}

// CR and LF in a value would let one answer pretend to be two.
void append_clean(std::string& out, std::string_view value) {
  for (const char c : value) out += c == '\r' || c == '\n' ? ' ' : c;
}

// How the client knows where the body ends.
enum class Framing : unsigned char { kLength, kChunks, kUntilClosed };

std::string make_head(const HttpResponse& response, bool last, Framing framing = Framing::kLength) {
  std::string head;
  head.reserve(128);
  head += "HTTP/1.1 ";
  append_number(head, static_cast<std::size_t>(response.status));
  head += ' ';
  head += reason_phrase(response.status);
  if (response.status != 204 && response.status != 304) {
    if (framing == Framing::kLength) {
      head += "\r\nContent-Length: ";
      append_number(head, response.body.size());
    } else if (framing == Framing::kChunks) {
      head += "\r\nTransfer-Encoding: chunked";
    }
    if (!response.content_type.empty()) {
      head += "\r\nContent-Type: ";
      append_clean(head, response.content_type);
    }
  }
  for (const auto& [name, value] : response.headers) {
    head += "\r\n";
    append_clean(head, name);
    head += ": ";
    append_clean(head, value);
  }
  if (last)
    head += "\r\nConnection: close";
  head += "\r\n\r\n";
  return head;
}

// A body that is written as it comes. What the client sends meanwhile belongs to no request, and is not read.
class BodyStream final : public Stream {
 public:
  BodyStream(std::unique_ptr<FdStream> connection, bool in_chunks)
      : connection_(std::move(connection)), in_chunks_(in_chunks) {
    connection_->on_data([](std::string_view) {});  // else nobody would learn that the client has gone
  }
  void on_data(std::function<void(std::string_view)>) override {}
  void on_close(std::function<void()> callback) override { connection_->on_close(std::move(callback)); }
  void write(std::string bytes) override {
    if (bytes.empty())  // in chunks that would be the end
      return;
    if (!in_chunks_)
      return connection_->write(std::move(bytes));
    char size[24];
    const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16).ptr;
    std::string chunk(size, end);
    chunk.reserve(chunk.size() + bytes.size() + 4);
    ((chunk += "\r\n") += bytes) += "\r\n";
    connection_->write(std::move(chunk));
  }
  std::size_t unsent() const override { return connection_->unsent(); }
  void on_drained(std::function<void()> callback) override { connection_->on_drained(std::move(callback)); }
  void pause(bool) override {}
  void close() override {
    if (in_chunks_)
      connection_->write("0\r\n\r\n");
    connection_->close();
  }
  void cut() override { connection_->close(); }

 private:
  std::unique_ptr<FdStream> connection_;
  bool in_chunks_;
};

}  // namespace

class HttpSession::Exchange final : public HttpExchange {
 public:
  Exchange(std::weak_ptr<HttpSession> session, std::uint64_t number, HttpRequest request, HttpHold memory)
      : session_(std::move(session)), number_(number), request_(std::move(request)), memory_(std::move(memory)) {}
  ~Exchange() override {
    if (!answered_)
      respond({.status = 500, .body = error_body("internal", "the request was dropped without an answer")});
  }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    gone_ = nullptr;
    if (const auto session = session_.lock())
      session->answer(number_, std::move(response));
  }
  std::unique_ptr<Stream> upgrade(const std::string& protocol) override { return upgrade_with(protocol, {}); }
  std::unique_ptr<Stream> upgrade_with(const std::string& protocol,
                                       const std::map<std::string, std::string>& headers) override {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    gone_ = nullptr;
    const auto session = session_.lock();
    return session ? session->upgrade(number_, protocol, headers) : nullptr;
  }
  std::unique_ptr<Stream> stream(HttpResponse head) override {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    gone_ = nullptr;
    const auto session = session_.lock();
    return session ? session->stream(number_, std::move(head)) : nullptr;
  }
  void on_gone(std::function<void()> callback) override {
    if (left_ && callback)
      callback();
    else
      gone_ = std::move(callback);
  }

  void tell_gone() {
    left_ = true;
    const auto callback = std::move(gone_);
    gone_ = nullptr;
    if (callback)
      callback();
  }

 private:
  std::weak_ptr<HttpSession> session_;
  std::uint64_t number_;
  HttpRequest request_;
  HttpHold memory_;  // of the request
  std::function<void()> gone_;
  bool answered_ = false, left_ = false;
};

// How long one connection may keep the loop to itself.
class HttpSession::Turn {
 public:
  bool over() { return ++steps_ > kRequestsPerTurn || std::chrono::steady_clock::now() >= end_; }

 private:
  int steps_ = 0;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kTurn;
};

HttpSession::HttpSession(Host& host, std::unique_ptr<FdStream> stream, Peer peer, std::string from,
                         std::shared_ptr<HttpHold> place)
    : host_(&host),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      from_(std::move(from)),
      parser_(host.limits.header_bytes),
      place_(std::move(place)),
      receiving_(host.lanes->hold(place_->caller(), HttpHold::Of::kMemory)),
      answering_(std::make_shared<HttpHold>(host.lanes->hold(place_->caller(), HttpHold::Of::kMemory))),
      active_tick_(host.now_tick),
      unread_tick_(host.now_tick) {}
HttpSession::~HttpSession() = default;

void HttpSession::start() {
  stream_->read_at_most(kKeptBuffer);  // more when a body has been allowed
  stream_->keep(place_);
  stream_->keep(answering_);
  // The stream belongs to this session and drops its callbacks with it.
  stream_->on_data([this](std::string_view bytes) {
    const auto keep = shared_from_this();
    if (!two_ && first_ == 0 && slots_.empty() && in_.empty() && stream_->tls() && stream_->tls()->protocol() == "h2")
      begin_two();
    if (const auto two = two_)
      return two->feed(bytes);
    if (!stream_)
      return;
    in_.append(bytes);
    process();
  });
  stream_->on_close([this] { closed(); });
  stream_->on_drained([this] { drained(); });
}

// Both ends agreed on it in the handshake.
void HttpSession::begin_two() {
  if (!learn_peer())
    return;
  stream_->read_at_most(SIZE_MAX);
  two_ = std::make_shared<Http2Connection>(Http2Connection::World{
      .loop = host_->loop,
      .handler = host_->handler,
      .limits = host_->limits,
      .lanes = host_->lanes,
      .caller = caller(),
      .peer = peer_,
      .prove = [this](const std::string& user) { return count_as(user) ? caller() : HttpCaller(); },
      .write =
          [this](std::string bytes) {
            if (stream_)
              stream_->write(std::move(bytes));
          },
      .unsent = [this] { return stream_ ? stream_->unsent() : 0; },
      .close =
          [this] {
            if (stream_)
              stream_->close();
            end();
          },
      .now_tick = host_->now_tick});
}

void HttpSession::detach() {
  two_.reset();
  host_ = nullptr;
  stream_.reset();
  slots_.clear();
}

bool HttpSession::blocked() const {
  return upgrading_ || finishing_ || yielding_ || needs_room_ || slots_.size() >= kPipelineMax ||
         stream_->unsent() > kStreamHighWater;
}

// Handlers answer from inside, and may take the connection over: every turn looks at the session's state again.
void HttpSession::process() {
  if (processing_)
    return;
  const auto keep = shared_from_this();
  processing_ = true;
  Turn turn;
  while (stream_ && !blocked() && in_used_ < in_.size()) {
    if (turn.over())
      go_on_later();
    else if (!parse_one())
      break;
  }
  processing_ = false;
  if (!stream_)
    return;
  in_.erase(0, finishing_ ? in_.size() : in_used_);
  in_used_ = 0;
  if (in_.empty() && in_.capacity() > kKeptBuffer)
    in_.shrink_to_fit();
  count_received();
  if (!stream_)
    return;
  const bool pause = blocked() && !finishing_;
  if (pause != paused_) {
    paused_ = pause;
    if (!pause)
      active_tick_ = host_->now_tick;  // the time in which we did not read counts against nobody
    stream_->pause(pause);
  }
}

void HttpSession::go_on_later() {
  yielding_ = true;
  host_->loop.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self)
      return;
    self->yielding_ = false;
    if (self->stream_)
      self->process();
  });
}

// What lies here half read is the caller's memory too.
void HttpSession::count_received() {
  const std::size_t body = parser_.mid_body() ? std::max<std::size_t>(receiving_.amount(), parser_.body_bytes()) : 0;
  const std::size_t here = in_.size() > kKeptBuffer ? in_.size() : 0;
  if (needs_room_ || receiving_.resize(std::max(body, here)))
    return;
  if (!finishing_)
    refuse(503, "too much of yours is under way: send it again later");
}

// False when it takes more bytes, or none will be taken any more.
bool HttpSession::parse_one() {
  if (!parser_.mid_message())
    active_tick_ = host_->now_tick;
  const auto fed = parser_.feed(std::string_view(in_).substr(in_used_));
  in_used_ += fed.consumed;
  switch (fed.progress) {
    case HttpParser::Progress::kMessage: dispatch(); return true;
    case HttpParser::Progress::kBad: refuse(parser_.bad_status(), parser_.bad_reason()); return false;
    case HttpParser::Progress::kHead: return head_read();
    case HttpParser::Progress::kNeedMore: return false;
  }
  return false;
}

bool HttpSession::head_read() {
  if (!learn_peer())
    return false;
  HttpRequest head = parser_.head();
  head.peer = peer_;
  const HttpLimits& limits = host_->limits;
  std::size_t bound = limits.body_bound ? limits.body_bound(head) : limits.body_bytes;
  if (!count_as(proven_by(head)))
    return false;
  if (peer_.how == Peer::How::kNobody && proven_by(head).empty())
    bound = std::min(bound, limits.stranger_body_bytes);
  const auto announced = parser_.announced_bytes();
  if (announced.value_or(0) > bound) {
    refuse(413, format("the body has {} bytes, and {} {} takes at most {} from you", *announced, head.method, head.path,
                       bound));
    return false;
  }
  parser_.allow_body(bound);
  return ask_for_body();
}

// A body that was announced is read when there is memory for all of it; one in chunks is counted as it comes.
bool HttpSession::ask_for_body() {
  const std::size_t wanted = cost_of(parser_.head()) + parser_.announced_bytes().value_or(0);
  needs_room_ = !receiving_.resize(std::max(wanted, receiving_.amount()));
  if (needs_room_) {
    host_->wait_for_room(this);
    return false;
  }
  stream_->read_at_most(SIZE_MAX);
  if (parser_.expects_continue() && !continued_ && slots_.empty()) {
    continued_ = true;
    stream_->write("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return true;
}

void HttpSession::look_for_room() {
  if (!stream_ || !needs_room_)
    return;
  const auto keep = shared_from_this();
  if (ask_for_body())
    process();
}

// False when the connection has ended.
bool HttpSession::learn_peer() {
  if (peer_known_ || stream_->tls() == nullptr)
    return true;
  peer_known_ = true;
  const CertificateName certificate = stream_->tls()->peer();
  if (!certificate.present)
    return true;
  peer_.how = Peer::How::kCertificate;
  peer_.certificate_name = certificate.name;
  peer_.certificate_role = certificate.role;
  peer_.certificate_serial = certificate.serial;
  peer_.certificate_groups = certificate.groups;
  if (host_->introduce(this, caller_of(peer_, host_->own_uid))) {
    receiving_ = host_->lanes->hold(caller(), HttpHold::Of::kMemory);
    *answering_ = host_->lanes->hold(caller(), HttpHold::Of::kMemory);
    return true;
  }
  if (stream_ && stream_->tls()->protocol() == "h2")
    closed();
  else if (stream_)
    refuse(503, format("{} has too many connections here", certificate.name));
  return false;
}

// "": nobody, or the connection itself says more.
std::string HttpSession::proven_by(const HttpRequest& head) const {
  const auto& asked = host_->limits.proven_user;
  return peer_.how == Peer::How::kNobody && asked ? asked(head) : std::string();
}

// What the connection holds is that user's from now on, where there is room for it; else its address's, as before.
// False: the connection has ended.
bool HttpSession::count_as(const std::string& user) {
  if (user.empty())
    return true;
  const HttpCaller proven{HttpCaller::Lane::kUser, "proven " + user};
  if (caller().name != proven.name && host_->introduce(this, proven)) {
    HttpHold received = host_->lanes->hold(proven, HttpHold::Of::kMemory);
    HttpHold answers = host_->lanes->hold(proven, HttpHold::Of::kMemory);
    if (received.resize(receiving_.amount()))
      receiving_ = std::move(received);
    if (answers.resize(answering_->amount()))
      *answering_ = std::move(answers);
  }
  return stream_ != nullptr;
}

void HttpSession::dispatch() {
  if (!learn_peer())
    return;
  continued_ = false;
  upgrading_ = parser_.wants_upgrade();
  finishing_ = !parser_.keep_alive() && !upgrading_;
  HttpRequest request = parser_.take();
  if (!count_as(proven_by(request)))
    return;
  request.peer = peer_;
  stream_->read_at_most(kKeptBuffer);
  // What was received becomes the request's memory.
  (void)receiving_.resize(0);
  HttpHold memory = host_->lanes->hold(place_->caller(), HttpHold::Of::kMemory);
  const bool fits = memory.resize(cost_of(request));
  const std::uint64_t number = first_ + slots_.size();
  slots_.emplace_back();
  slots_.back().last = finishing_;
  slots_.back().is_head = request.method == "HEAD";
  slots_.back().takes_chunks = parser_.takes_chunks();
  const auto exchange = std::make_shared<Exchange>(weak_from_this(), number, std::move(request), std::move(memory));
  slots_.back().exchange = exchange;
  if (fits)
    host_->handler(exchange);
  else
    exchange->respond(come_again("too many of your requests are under way: send it again later"));
}

void HttpSession::refuse(int status, const std::string& why) {
  finishing_ = true;
  Slot slot;
  const bool invalid = status == 400 || status == 431;
  HttpResponse response =
      status == 503 ? come_again(why)
                    : HttpResponse{.status = status,
                                   .body = error_body("invalid", invalid ? "not a valid HTTP request: " + why : why)};
  slot.head = make_head(response, true);
  slot.body = std::move(response.body);
  slot.ready = slot.last = true;
  slots_.push_back(std::move(slot));
  send_ready();
}

void HttpSession::answer(std::uint64_t number, HttpResponse response) {
  if (!stream_ || number < first_)
    return;
  const std::size_t at = static_cast<std::size_t>(number - first_);
  Slot& slot = slots_[at];
  if (upgrading_ && at + 1 == slots_.size())
    upgrading_ = false;  // declined: the connection stays HTTP
  if (!answering_->resize(answering_->amount() + response.body.size())) {
    if (stream_->unsent() > kKeptBuffer)
      return closed();  // it asks and asks, and does not read
    const std::size_t most = host_->lanes->memory_each();
    response = response.body.size() > most
                   ? HttpResponse{.status = 507,
                                  .body = error_body("exhausted",
                                                     format("the answer has {} bytes, more than {}: ask for less of it",
                                                            response.body.size(), most))}
                   : come_again("answers that you have not read yet fill your share of memory: read them first");
  }
  slot.head = make_head(response, slot.last);
  if (!slot.is_head && response.status != 204 && response.status != 304)
    slot.body = std::move(response.body);
  slot.ready = true;
  slot_bytes_ += slot.head.size() + slot.body.size();
  if (at == 0)
    send_ready();
}

void HttpSession::send_ready() {
  const auto keep = shared_from_this();
  while (stream_ && !slots_.empty() && slots_.front().ready) {
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    ++first_;
    slot_bytes_ -= slot.head.size() + slot.body.size();
    written_ += slot.head.size() + slot.body.size();
    if (slot.body.size() <= kJoinBytes)
      slot.head += slot.body;
    stream_->write(std::move(slot.head));
    if (slot.body.size() > kJoinBytes)
      stream_->write(std::move(slot.body));
    active_tick_ = host_->now_tick;
    if (slot.last) {
      stream_->close();
      end();
      return;
    }
  }
  if (in_used_ < in_.size() || paused_)
    process();
}

// The peer has everything that was sent; what is left are answers behind one that is not ready.
void HttpSession::drained() {
  if (two_)
    return two_->drained();
  (void)answering_->resize(std::min(answering_->amount(), slot_bytes_));
  process();
}

std::unique_ptr<Stream> HttpSession::upgrade(std::uint64_t number, const std::string& protocol,
                                             const std::map<std::string, std::string>& headers) {
  if (!stream_ || number < first_)
    return nullptr;
  // What the handler saw in the headers is the client's word; whether the connection can change is known only here.
  const bool asked = upgrading_ && number + 1 == first_ + slots_.size();
  if (!asked || number != first_) {
    decline(number, protocol, asked);
    return nullptr;
  }
  if (!take_stream_memory(number))
    return nullptr;
  const auto keep = shared_from_this();
  std::string head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ";
  append_clean(head, protocol);
  for (const auto& [name, value] : headers) {
    append_clean(head += "\r\n", name);
    append_clean(head += ": ", value);
  }
  stream_->write(head + "\r\n\r\n");
  stream_->read_at_most(SIZE_MAX);
  stream_->put_back(in_.substr(in_used_));
  return leave();
}

// False: refused. A node's connections are few, and counted; a user's are charged for what travels on them.
bool HttpSession::take_stream_memory(std::uint64_t number) {
  const bool counted = caller().lane == HttpCaller::Lane::kUser || caller().lane == HttpCaller::Lane::kStranger;
  if (answering_->resize(counted ? kStreamCost : 0))
    return true;
  answer(number, come_again("too many of your streams are open: close some, or try again later"));
  return false;
}

// Somebody else has the connection from here on. Requests behind this one are not answered.
std::unique_ptr<FdStream> HttpSession::leave() {
  stream_->on_data(nullptr);
  stream_->on_close(nullptr);
  stream_->on_drained(nullptr);
  stream_->pause(false);
  auto stream = std::move(stream_);
  auto behind = std::move(slots_);
  behind.pop_front();  // whose stream this is
  slots_.clear();
  for (const Slot& slot : behind)
    if (const auto exchange = slot.exchange.lock())
      exchange->tell_gone();
  end();
  return stream;
}

std::unique_ptr<Stream> HttpSession::stream(std::uint64_t number, HttpResponse head) {
  if (!stream_ || number < first_)
    return nullptr;
  if (number != first_) {
    answer(number, {.status = 400,
                    .body = error_body("invalid",
                                       "an answer without an end cannot follow a request that is still unanswered: "
                                       "send it again, alone on its connection")});
    return nullptr;
  }
  head.body.clear();
  if (slots_.front().is_head) {
    answer(number, std::move(head));
    return nullptr;
  }
  if (!take_stream_memory(number))
    return nullptr;
  const auto keep = shared_from_this();
  const bool in_chunks = slots_.front().takes_chunks;
  stream_->write(make_head(head, true, in_chunks ? Framing::kChunks : Framing::kUntilClosed));
  return std::make_unique<BodyStream>(leave(), in_chunks);
}

void HttpSession::decline(std::uint64_t number, const std::string& protocol, bool asked) {
  if (asked)
    return answer(number, {.status = 400,
                           .body = error_body("invalid",
                                              "an upgrade cannot follow a request that is still unanswered: send it "
                                              "again, alone on its connection")});
  answer(number,
         {.status = 426,
          .body = error_body("invalid", "to be upgraded, send the headers Connection: Upgrade and Upgrade together"),
          .headers = {{"Upgrade", protocol}}});
}

void HttpSession::closed() {
  const auto keep = shared_from_this();
  const TlsEngine* tls = stream_->tls();
  if (tls != nullptr && !tls->ready() && !stream_->close_reason().empty())
    host_->notice(format("refused a TLS connection from {}: {}", from_, stream_->close_reason()));
  const auto slots = std::move(slots_);
  slots_.clear();
  stream_.reset();
  if (const auto two = std::move(two_))
    two->gone();
  for (const auto& slot : slots)
    if (const auto exchange = slot.exchange.lock())
      exchange->tell_gone();
  end();
}

void HttpSession::end() {
  stream_.reset();
  two_.reset();
  slots_.clear();
  if (host_ != nullptr)
    host_->remove(this);
  host_ = nullptr;
  place_.reset();  // the stream still has it while the descriptor is open
}

void HttpSession::sweep() {
  if (!stream_)
    return;
  const auto keep = shared_from_this();
  if (two_)
    return two_->sweep(host_->now_tick, host_->tick);
  if (stream_->unsent() > 0)
    return sweep_unread();
  written_ = 0;
  unread_tick_ = host_->now_tick;
  const std::int64_t silent = host_->now_tick - active_tick_;
  const std::int64_t header = host_->ticks(host_->limits.header_timeout);
  if (needs_room_ && silent > header) {
    needs_room_ = false;
    return refuse(503, "requests under way fill the memory for them: send it again later");
  }
  if (parser_.mid_message() && !blocked()) {
    if (silent > header + host_->ticks_for(parser_.body_bytes()))
      refuse(408, "it did not come to its end in time");
  } else if (slots_.empty() && !blocked() &&
             silent > (first_ == 0 ? header : host_->ticks(host_->limits.idle_timeout))) {
    closed();
  }
}

// A peer that does not read its answers, or hardly.
void HttpSession::sweep_unread() {
  const std::size_t read = written_ - std::min(written_, stream_->unsent());
  if (host_->now_tick - unread_tick_ > host_->ticks(host_->limits.drain_timeout) + host_->ticks_for(read))
    closed();
}

}  // namespace lockstep
