#include "controller/links.h"

#include <cstdio>

#include "base/text.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace lockstep {

namespace {

constexpr std::size_t kStreamsMax = 20'000;  // of one link

void frame_to(Stream& stream, LinkFrame type, std::uint64_t id, std::string_view payload) {
  stream.write(encode_frame(static_cast<std::uint8_t>(type), id, payload));
}

std::string credit_text(std::uint64_t bytes) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(i)] = static_cast<char>(bytes >> (8 * (7 - i)));
  return out;
}

std::uint64_t credit_of(std::string_view payload) {
  std::uint64_t n = 0;
  for (const char c : payload.substr(0, 8)) n = (n << 8) | static_cast<unsigned char>(c);
  return n;
}

// "%41+b" -> "A b" in a query, "A+b" in a path.
std::string percent_decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

HttpRequest request_of(ApiCall call, const std::string& realm, const std::string& node_name) {
  HttpRequest request;
  request.method = std::move(call.method);
  const std::string_view target = call.target;
  const auto mark = target.find('?');
  request.path = percent_decoded(target.substr(0, mark), false);
  if (mark != std::string_view::npos)
    for (const auto& part : split(target.substr(mark + 1), '&')) {
      const auto equals = part.find('=');
      std::string name = percent_decoded(std::string_view(part).substr(0, equals), true);
      if (!name.empty())
        request.query[std::move(name)] =
            equals == std::string::npos ? "" : percent_decoded(std::string_view(part).substr(equals + 1), true);
    }
  if (!call.upgrade.empty())
    request.headers["upgrade"] = call.upgrade;
  request.body = std::move(call.body);
  request.peer.how = Peer::How::kForwarded;
  request.peer.uid = call.uid;
  request.peer.gid = call.gid;
  request.peer.pid = call.pid;
  request.peer.realm = realm;
  request.peer.certificate_name = "node:" + node_name;
  return request;
}

}  // namespace

class LinkStream;

// Lives while the connection or one of its streams does: streams look at `stream` before they write.
struct LinkHub::Link {
  std::uint64_t id = 0;
  std::string node_name, realm;
  PeerAddress peer;
  std::unique_ptr<Stream> stream;  // null once closed
  FrameReader reader;
  bool closing = false;
  std::uint64_t next_stream = 2;
  std::map<std::uint64_t, LinkStream*> streams;
  std::map<std::uint64_t, std::function<void()>> calls;  // open forwarded calls: what to do when the client is gone

  void send(LinkFrame type, std::uint64_t id, std::string_view payload) {
    if (stream && !closing)
      frame_to(*stream, type, id, payload);
  }
};

class LinkStream final : public Stream {
 public:
  LinkStream(std::shared_ptr<LinkHub::Link> link, std::uint64_t id) : link_(std::move(link)), id_(id) {
    link_->streams[id_] = this;
  }
  ~LinkStream() override {
    if (detach())
      link_->send(LinkFrame::kStreamClose, id_, {});
  }

  void on_data(std::function<void(std::string_view)> callback) override {
    on_data_ = std::move(callback);
    deliver();
  }
  void on_close(std::function<void()> callback) override { on_close_ = std::move(callback); }
  void write(std::string bytes) override {
    if (closed_ || closing_)
      return;
    queued_ += bytes;
    push();
  }
  std::size_t unsent() const override { return queued_.size(); }
  void on_drained(std::function<void()> callback) override { on_drained_ = std::move(callback); }
  void pause(bool reading_paused) override {
    paused_ = reading_paused;
    if (!paused_)
      deliver();
  }
  void close() override {
    closing_ = true;
    push();
  }

  // From the link. After any of these the object may be gone.
  void receive(std::string_view bytes) {
    arrived_ += bytes;
    deliver();
  }
  void credit(std::uint64_t bytes) {
    credit_ += bytes;
    const bool was_full = !queued_.empty();
    push();
    if (was_full && queued_.empty() && on_drained_) {
      const auto callback = on_drained_;
      callback();
    }
  }
  // What has arrived is delivered before the end is told.
  void peer_closed() {
    if (!detach())
      return;
    ended_ = true;
    deliver();
  }

 private:
  bool detach() {
    if (closed_)
      return false;
    closed_ = true;
    link_->streams.erase(id_);
    return true;
  }
  void push() {
    constexpr std::size_t kPiece = 256 << 10;
    while (!queued_.empty() && credit_ > 0 && !closed_) {
      const std::size_t n = std::min({queued_.size(), static_cast<std::size_t>(credit_), kPiece});
      link_->send(LinkFrame::kStreamData, id_, std::string_view(queued_).substr(0, n));
      queued_.erase(0, n);
      credit_ -= n;
    }
    if (closing_ && queued_.empty() && detach())
      link_->send(LinkFrame::kStreamClose, id_, {});
  }
  void deliver() {
    if (!paused_ && on_data_ && !arrived_.empty()) {
      const std::string bytes = std::exchange(arrived_, {});
      if (!closed_)
        link_->send(LinkFrame::kStreamWindow, id_, credit_text(bytes.size()));
      const std::weak_ptr<int> here = alive_;
      const auto callback = on_data_;
      callback(bytes);
      if (here.expired())
        return;
    }
    if (ended_ && arrived_.empty())
      if (const auto callback = std::exchange(on_close_, nullptr))
        callback();
  }

  std::shared_ptr<LinkHub::Link> link_;
  std::uint64_t id_;
  std::uint64_t credit_ = kStreamCredit;
  std::string queued_, arrived_;
  bool paused_ = false, closing_ = false, closed_ = false, ended_ = false;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // gone with this object, which a callback may destroy
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_close_, on_drained_;
};

namespace {

// A local client's request that came over an agent's link.
class ForwardedExchange final : public HttpExchange {
 public:
  ForwardedExchange(std::shared_ptr<LinkHub::Link> link, std::uint64_t id, HttpRequest request)
      : link_(std::move(link)), id_(id), request_(std::move(request)) {
    link_->calls[id_] = nullptr;
  }
  ~ForwardedExchange() override {
    if (!answered_)
      respond({500, "application/json", encode_error({Errc::kInternal, "the request was dropped", {}}), {}});
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    CHECK(!answered_);
    finish();
    link_->send(LinkFrame::kApiReply, id_,
                encode(ApiReply{response.status, std::move(response.content_type), std::move(response.body)}));
  }
  std::unique_ptr<Stream> upgrade(const std::string&) override {
    CHECK(!answered_);
    finish();
    link_->send(LinkFrame::kApiReply, id_, encode(ApiReply{101, "", ""}));
    return std::make_unique<LinkStream>(link_, id_);
  }
  void on_gone(std::function<void()> callback) override {
    if (const auto it = link_->calls.find(id_); it != link_->calls.end())
      it->second = std::move(callback);
    else if (!answered_ && callback)
      callback();  // it left before anybody asked
  }

 private:
  void finish() {
    answered_ = true;
    link_->calls.erase(id_);
  }

  std::shared_ptr<LinkHub::Link> link_;
  std::uint64_t id_;
  HttpRequest request_;
  bool answered_ = false;
};

}  // namespace

LinkHub::LinkHub(Handlers handlers) : handlers_(std::move(handlers)) {}

LinkHub::~LinkHub() {
  for (auto& [id, link] : links_) link->stream.reset();
}

void LinkHub::add(std::unique_ptr<Stream> stream, std::string node_name, std::string realm) {
  auto link = std::make_shared<Link>();
  const std::uint64_t id = link->id = next_++;
  link->node_name = std::move(node_name);
  link->realm = std::move(realm);
  link->stream = std::move(stream);
  links_[id] = link;
  handlers_.connected(id, link->node_name);
  link->stream->on_close([this, id] { drop(id); });
  // The link is kept through the callback: a frame may end it.
  link->stream->on_data([this, weak = std::weak_ptr<Link>(link)](std::string_view bytes) {
    const auto held = weak.lock();
    if (!held || held->closing)
      return;
    const auto fed = held->reader.feed(bytes, [&](Frame f) {
      if (!held->closing)
        frame(held, std::move(f));
    });
    if (!fed.ok() && !held->closing) {
      std::fprintf(stderr, "lockstepd: link of %s: %s\n", held->node_name.c_str(), fed.error().message.c_str());
      drop(held->id);
    }
  });
}

void LinkHub::drop(std::uint64_t id) {
  const auto it = links_.find(id);
  if (it == links_.end())
    return;
  const std::shared_ptr<Link> link = it->second;
  links_.erase(it);
  link->closing = true;
  if (const auto name = by_name_.find(link->node_name); name != by_name_.end() && name->second == id)
    by_name_.erase(name);
  handlers_.disconnected(id);
  while (!link->streams.empty()) link->streams.begin()->second->peer_closed();
  for (auto calls = std::exchange(link->calls, {}); auto& [call, gone] : calls)
    if (gone)
      gone();
  if (link->stream)
    link->stream->close();
  // What is still queued goes out, and a callback of this very stream may be running: it is destroyed later.
  constexpr std::size_t kDyingMax = 64;
  dying_.push_back(link);
  if (dying_.size() > kDyingMax)
    dying_.pop_front();
}

void LinkHub::frame(const std::shared_ptr<Link>& link, Frame f) {
  switch (static_cast<LinkFrame>(f.type)) {
    case LinkFrame::kMessage: {
      auto message = decode_from_agent(f.payload);
      if (!message.ok()) {
        std::fprintf(stderr, "lockstepd: link of %s: %s %s\n", link->node_name.c_str(), message.error().message.c_str(),
                     message.error().field.c_str());
        drop(link->id);
        return;
      }
      if (const auto* hello = std::get_if<Hello>(&*message))
        link->peer = {hello->facts.address, hello->peer_port};
      handlers_.message(link->id, std::move(*message));
      return;
    }
    case LinkFrame::kApiCall:
    case LinkFrame::kOpenStream: {
      auto call = decode_api_call(f.payload);
      if (f.stream % 2 == 0 || link->calls.contains(f.stream) || link->streams.contains(f.stream) ||
          link->calls.size() + link->streams.size() >= kStreamsMax || !call.ok()) {
        const Error why = call.ok() ? Error{Errc::kExhausted, "too many calls at once on this node", {}} : call.error();
        link->send(LinkFrame::kApiReply, f.stream,
                   encode(ApiReply{http_status_of(why.code), "application/json", encode_error(why)}));
        return;
      }
      if (f.type == static_cast<std::uint8_t>(LinkFrame::kApiCall))
        call->upgrade.clear();
      handlers_.call(std::make_shared<ForwardedExchange>(link, f.stream,
                                                         request_of(std::move(*call), link->realm, link->node_name)));
      return;
    }
    case LinkFrame::kStreamData:
      if (const auto it = link->streams.find(f.stream); it != link->streams.end())
        it->second->receive(f.payload);
      return;
    case LinkFrame::kStreamWindow:
      if (const auto it = link->streams.find(f.stream); it != link->streams.end() && f.payload.size() == 8)
        it->second->credit(credit_of(f.payload));
      return;
    case LinkFrame::kStreamClose:
      if (const auto it = link->streams.find(f.stream); it != link->streams.end()) {
        it->second->peer_closed();
      } else if (const auto call = link->calls.find(f.stream); call != link->calls.end()) {
        const auto gone = std::move(call->second);
        link->calls.erase(call);
        if (gone)
          gone();
      }
      return;
    case LinkFrame::kApiReply: return;
  }
}

void LinkHub::send(std::vector<NodeDesk::Outgoing> messages) {
  for (auto& out : messages) {
    const auto it = links_.find(out.link);
    if (it == links_.end())
      continue;
    const std::shared_ptr<Link> link = it->second;
    if (auto* welcome = std::get_if<Welcome>(&out.message); welcome && handlers_.complete)
      handlers_.complete(link->node_name, *welcome);
    link->send(LinkFrame::kMessage, 0, encode(out.message));
    if (std::holds_alternative<Welcome>(out.message)) {
      by_name_[link->node_name] = link->id;
      handlers_.welcomed(link->node_name);
    } else if (std::holds_alternative<Refused>(out.message)) {
      drop(link->id);
    }
  }
}

LinkHub::PeerAddress LinkHub::peer_address(const std::string& node_name) const {
  const auto name = by_name_.find(node_name);
  return name == by_name_.end() ? PeerAddress{} : links_.at(name->second)->peer;
}

std::unique_ptr<Stream> LinkHub::open(const std::string& node_name, const StepOpen& what) {
  const auto name = by_name_.find(node_name);
  if (name == by_name_.end())
    return nullptr;
  const auto& link = links_.at(name->second);
  const std::uint64_t id = link->next_stream;
  link->next_stream += 2;
  link->send(LinkFrame::kOpenStream, id, encode(what));
  return std::make_unique<LinkStream>(link, id);
}

}  // namespace lockstep
