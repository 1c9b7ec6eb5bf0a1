#include "io/http_session.h"

#include <charconv>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kPipelineMax = 256;      // unanswered requests of one connection; then we stop reading
constexpr std::size_t kKeptBuffer = 16 << 10;  // an idle connection keeps no more
constexpr std::size_t kJoinBytes = 32 << 10;   // smaller bodies travel in one piece with their head

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

std::string make_head(const HttpResponse& response, bool last) {
  std::string head;
  head.reserve(128);
  head += "HTTP/1.1 ";
  append_number(head, static_cast<std::size_t>(response.status));
  head += ' ';
  head += reason_phrase(response.status);
  if (response.status != 204 && response.status != 304) {
    head += "\r\nContent-Length: ";
    append_number(head, response.body.size());
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

std::string error_body(std::string_view code, std::string_view message) {
  std::string clean;
  for (const char c : message) clean += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32 ? ' ' : c;
  return format(R"({{"error":{{"code":"{}","message":"{}","field":""}}}})", code, clean);
}

}  // namespace

class HttpSession::Exchange final : public HttpExchange {
 public:
  Exchange(std::weak_ptr<HttpSession> session, std::uint64_t number, HttpRequest request)
      : session_(std::move(session)), number_(number), request_(std::move(request)) {}
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
  std::unique_ptr<Stream> upgrade(const std::string& protocol) override {
    CHECK(!answered_, "an exchange is answered once");
    answered_ = true;
    gone_ = nullptr;
    const auto session = session_.lock();
    return session ? session->upgrade(number_, protocol) : nullptr;
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
  std::function<void()> gone_;
  bool answered_ = false, left_ = false;
};

HttpSession::HttpSession(Host& host, std::unique_ptr<FdStream> stream, Peer peer, std::string from)
    : host_(&host),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      from_(std::move(from)),
      parser_(host.limits.header_bytes, host.limits.body_bytes),
      active_tick_(host.now_tick) {}
HttpSession::~HttpSession() = default;

void HttpSession::start() {
  // The stream belongs to this session and drops both callbacks with it.
  stream_->on_data([this](std::string_view bytes) {
    in_.append(bytes);
    process();
  });
  stream_->on_close([this] { closed(); });
}

void HttpSession::detach() {
  host_ = nullptr;
  stream_.reset();
  slots_.clear();
}

bool HttpSession::blocked() const {
  return upgrading_ || finishing_ || slots_.size() >= kPipelineMax || stream_->unsent() > kStreamHighWater;
}

// Handlers answer from inside, and may take the connection over: every turn looks at the session's state again.
void HttpSession::process() {
  if (processing_)
    return;
  const auto keep = shared_from_this();
  processing_ = true;
  while (stream_ && !blocked() && in_used_ < in_.size())
    if (!parse_one())
      break;
  processing_ = false;
  if (!stream_)
    return;
  in_.erase(0, finishing_ ? in_.size() : in_used_);
  in_used_ = 0;
  if (in_.empty() && in_.capacity() > kKeptBuffer)
    in_.shrink_to_fit();
  const bool pause = blocked() && !finishing_;
  if (pause != paused_) {
    paused_ = pause;
    stream_->pause(pause);
  }
}

// False when it takes more bytes, or none will be taken any more.
bool HttpSession::parse_one() {
  if (!parser_.mid_message())
    active_tick_ = host_->now_tick;
  const auto fed = parser_.feed(std::string_view(in_).substr(in_used_));
  in_used_ += fed.consumed;
  if (parser_.mid_body())
    active_tick_ = host_->now_tick;
  switch (fed.progress) {
    case HttpParser::Progress::kMessage: dispatch(); return true;
    case HttpParser::Progress::kBad: refuse(parser_.bad_status(), parser_.bad_reason()); return false;
    case HttpParser::Progress::kNeedMore: break;
  }
  if (parser_.expects_continue() && !continued_ && slots_.empty()) {
    continued_ = true;
    stream_->write("HTTP/1.1 100 Continue\r\n\r\n");
  }
  return false;
}

void HttpSession::dispatch() {
  if (!peer_known_ && stream_->tls() != nullptr) {
    const CertificateName certificate = stream_->tls()->peer();
    if (certificate.present) {
      peer_.how = Peer::How::kCertificate;
      peer_.certificate_name = certificate.name;
      peer_.certificate_role = certificate.role;
      peer_.certificate_serial = certificate.serial;
    }
  }
  peer_known_ = true;
  continued_ = false;
  upgrading_ = parser_.wants_upgrade();
  finishing_ = !parser_.keep_alive() && !upgrading_;
  HttpRequest request = parser_.take();
  request.peer = peer_;
  const std::uint64_t number = first_ + slots_.size();
  slots_.emplace_back();
  slots_.back().last = finishing_;
  slots_.back().is_head = request.method == "HEAD";
  const auto exchange = std::make_shared<Exchange>(weak_from_this(), number, std::move(request));
  slots_.back().exchange = exchange;
  host_->handler(exchange);
}

void HttpSession::refuse(int status, const std::string& why) {
  finishing_ = true;
  Slot slot;
  HttpResponse response{.status = status, .body = error_body("invalid", "not a valid HTTP request: " + why)};
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
  slot.head = make_head(response, slot.last);
  if (!slot.is_head && response.status != 204 && response.status != 304)
    slot.body = std::move(response.body);
  slot.ready = true;
  if (at == 0)
    send_ready();
}

void HttpSession::send_ready() {
  const auto keep = shared_from_this();
  while (stream_ && !slots_.empty() && slots_.front().ready) {
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    ++first_;
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
  if (stream_ && stream_->unsent() > kStreamHighWater)
    stream_->on_drained([this] { process(); });
  if (in_used_ < in_.size() || paused_)
    process();
}

std::unique_ptr<Stream> HttpSession::upgrade(std::uint64_t number, const std::string& protocol) {
  if (!stream_ || number < first_)
    return nullptr;
  // What the handler saw in the headers is the client's word; whether the connection can change is known only here.
  const bool asked = upgrading_ && number + 1 == first_ + slots_.size();
  if (!asked || number != first_) {
    const std::string_view why = asked ? "an upgrade cannot follow a request that is still unanswered: send it again, "
                                         "alone on its connection"
                                       : "to be upgraded, send the headers Connection: Upgrade and Upgrade together";
    HttpResponse response{.status = asked ? 400 : 426, .body = error_body("invalid", why)};
    if (!asked)
      response.headers["Upgrade"] = protocol;
    answer(number, std::move(response));
    return nullptr;
  }
  const auto keep = shared_from_this();
  std::string head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ";
  append_clean(head, protocol);
  stream_->write(head + "\r\n\r\n");
  stream_->on_data(nullptr);
  stream_->on_close(nullptr);
  stream_->on_drained(nullptr);
  stream_->put_back(in_.substr(in_used_));
  stream_->pause(false);
  auto stream = std::move(stream_);
  end();
  return stream;
}

void HttpSession::closed() {
  const auto keep = shared_from_this();
  const TlsEngine* tls = stream_->tls();
  if (tls != nullptr && !tls->ready() && !stream_->close_reason().empty())
    host_->notice(format("refused a TLS connection from {}: {}", from_, stream_->close_reason()));
  const auto slots = std::move(slots_);
  slots_.clear();
  stream_.reset();
  for (const auto& slot : slots)
    if (const auto exchange = slot.exchange.lock())
      exchange->tell_gone();
  end();
}

void HttpSession::end() {
  stream_.reset();
  slots_.clear();
  if (host_ != nullptr)
    host_->remove(this);
  host_ = nullptr;
}

void HttpSession::sweep(std::int64_t header_ticks, std::int64_t idle_ticks) {
  if (!stream_)
    return;
  const std::int64_t silent = host_->now_tick - active_tick_;
  const std::size_t unsent = stream_->unsent();
  if (unsent > 0 && unsent == unsent_before_) {
    if (silent > idle_ticks)
      closed();  // the peer does not read its answer
    return;
  }
  if (unsent > 0)
    active_tick_ = host_->now_tick;
  unsent_before_ = unsent;
  if (!slots_.empty())
    return;  // the answer is ours to give
  if (parser_.mid_message() && silent > header_ticks)
    refuse(408, "it did not come to its end in time");
  else if (silent > (first_ == 0 ? header_ticks : idle_ticks))
    closed();
}

}  // namespace lockstep
