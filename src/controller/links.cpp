#include "controller/links.h"

#include <cstdio>
#include <deque>
#include <optional>

#include "base/log_line.h"
#include "base/text.h"
#include "link/mux.h"
#include "wire/api_call.h"
#include "wire/codec.h"
#include "wire/frame.h"

namespace lockstep {

namespace {

constexpr std::size_t kShortMessageBytes = 64 << 10;  // longer ones are read on another thread
constexpr std::size_t kMessageBytesMax = 8 << 20;     // of a node: more of it is read than others should wait for
constexpr std::size_t kCallCost = 2 << 10;            // of memory, besides its bytes
constexpr std::size_t kStreamCost = 32 << 10;         // of a client's stream, for what is under way on it

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

// The body apart.
HttpRequest request_of(const ApiCall& call, const LinkHub::Holder& holder) {
  HttpRequest request;
  request.method = call.method;
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
  for (const auto& [name, value] : call.headers)
    if (std::find(std::begin(kForwardedHeaders), std::end(kForwardedHeaders), name) != std::end(kForwardedHeaders))
      request.headers[name] = value;
  if (!call.upgrade.empty())
    request.headers["upgrade"] = call.upgrade;
  request.peer.how = Peer::How::kForwarded;
  request.peer.uid = call.uid;
  request.peer.gid = call.gid;
  request.peer.pid = call.pid;
  request.peer.realm = holder.realm;
  request.peer.certificate_name = "node:" + holder.node_name;
  return request;
}

}  // namespace

// Lives while the connection or one of its calls does.
struct LinkHub::Link {
  struct Call {
    const void* owner = nullptr;  // the exchange or the collected request it is; a number may come twice
    std::function<void()> gone;   // what to do when the client is gone
  };
  struct Body {  // that is collected
    std::unique_ptr<Stream> stream;
    FairHold memory;
    HttpRequest request;
    std::size_t wanted = 0;
  };

  std::uint64_t id = 0;
  Holder holder;
  PeerAddress peer;
  bool welcome = false;       // until then nobody is heard who speaks through it
  bool comes_second = false;  // there was a welcome one of the same node, which may be alive
  std::string first_address;  // of that one
  std::shared_ptr<Mux> mux;
  std::shared_ptr<FairShare> memory;
  std::uint64_t next_stream = 2;
  std::map<std::uint64_t, Call> calls;
  std::map<std::uint64_t, Body> bodies;
  // Messages that wait behind one that is read aside, which stands first: all are taken in their order. Nothing more is
  // read of the connection until it is empty.
  std::deque<std::shared_ptr<const std::string>> unread;
  std::shared_ptr<LaunchLane> launches;

  FairHold hold() const { return {memory, holder.node_name}; }
  bool holds(std::uint64_t call, const void* owner) const {
    const auto it = calls.find(call);
    return it != calls.end() && it->second.owner == owner;
  }
  void reply(std::uint64_t call, const ApiReply& answer) { mux->send(LinkFrame::kApiReply, call, encode(answer)); }
  void refuse(std::uint64_t call, int status, const Error& why) {
    reply(call, ApiReply{status, "application/json", encode_error(why)});
  }
  void refuse(std::uint64_t call, const Error& why) { refuse(call, http_status_of(why.code), why); }

  void answer(std::uint64_t call, std::uint32_t uid, HttpResponse response, std::unique_ptr<Stream> carrier);
};

namespace {

ApiReply head_of(HttpResponse response) {
  ApiReply reply{response.status, std::move(response.content_type), std::move(response.body)};
  reply.headers.assign(response.headers.begin(), response.headers.end());
  return reply;
}

}  // namespace

// A short answer goes in one frame. A long one follows as a stream, in turn with those of other users.
void LinkHub::Link::answer(std::uint64_t call, std::uint32_t uid, HttpResponse response,
                           std::unique_ptr<Stream> carrier) {
  ApiReply head = head_of(std::move(response));
  std::string body = std::exchange(head.body, {});
  if (body.size() <= kApiInlineMax) {
    head.body = std::move(body);
    return reply(call, head);
  }
  const auto held = std::make_shared<FairHold>(memory, holder.node_name);
  if (!held->resize(body.size()))
    return refuse(
        call, body.size() > memory->each() ? 507 : 503,
        {Errc::kExhausted,
         format("the answer has {} bytes, and {} of them may be under way to one node: ask for less, or later",
                body.size(), memory->each()),
         {}});
  if (!carrier)
    carrier = mux->stream(call, uid);
  head.bytes = body.size();
  reply(call, head);
  mux->keep(call, held);
  carrier->write(std::move(body));
  carrier->close();  // and dropped: the mux sends on
}

namespace {

// A local client's request that came over an agent's link.
class ForwardedExchange final : public HttpExchange {
 public:
  ForwardedExchange(std::shared_ptr<LinkHub::Link> link, std::uint64_t id, HttpRequest request, FairHold memory,
                    std::unique_ptr<Stream> carrier = nullptr)
      : link_(std::move(link)),
        id_(id),
        request_(std::move(request)),
        memory_(std::move(memory)),
        carrier_(std::move(carrier)) {
    link_->calls[id_] = {this, nullptr};
  }
  ~ForwardedExchange() override {
    if (!answered_)
      respond({500, "application/json", encode_error({Errc::kInternal, "the request was dropped", {}}), {}});
  }
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    CHECK(!answered_, "an exchange is answered once");
    if (finish())
      link_->answer(id_, request_.peer.uid, std::move(response), std::move(carrier_));
  }
  std::unique_ptr<Stream> upgrade(const std::string&) override {
    CHECK(!answered_, "an exchange is answered once");
    if (!finish())
      return nullptr;
    if (!request_.headers.contains("upgrade") || link_->mux->has(id_)) {
      link_->refuse(id_, 426, invalid("only a request that asks for it is upgraded"));
      return nullptr;
    }
    return open(ApiReply{101, "", ""});
  }
  std::unique_ptr<Stream> stream(HttpResponse head) override {
    CHECK(!answered_, "an exchange is answered once");
    if (!finish())
      return nullptr;
    head.body.clear();
    ApiReply reply = head_of(std::move(head));
    reply.stream = true;
    return open(reply);
  }
  void on_gone(std::function<void()> callback) override {
    if (link_->holds(id_, this))
      link_->calls[id_].gone = std::move(callback);
    else if (!answered_ && callback)
      callback();  // it left before anybody asked
  }

 private:
  std::unique_ptr<Stream> open(const ApiReply& head) {
    const auto held = std::make_shared<FairHold>(link_->hold());
    if (!held->resize(kStreamCost)) {
      link_->refuse(id_, {Errc::kUnavailable, "this node has too many streams open: close some, or try later", {}});
      return nullptr;
    }
    link_->reply(id_, head);
    auto stream = carrier_ ? std::move(carrier_) : link_->mux->stream(id_, request_.peer.uid);
    link_->mux->keep(id_, held);
    return stream;
  }
  // False: nobody waits for the answer any more.
  bool finish() {
    answered_ = true;
    if (!link_->holds(id_, this))
      return false;
    link_->calls.erase(id_);
    return true;
  }

  std::shared_ptr<LinkHub::Link> link_;
  std::uint64_t id_;
  HttpRequest request_;
  FairHold memory_;                  // of the request
  std::unique_ptr<Stream> carrier_;  // the stream that brought a long body, for a long answer
  bool answered_ = false;
};

}  // namespace

LinkHub::LinkHub(Handlers handlers, LinkLimits limits)
    : handlers_(std::move(handlers)),
      limits_(limits),
      memory_(std::make_shared<FairShare>(
          FairShare::Bounds{.limit = limits.memory_bytes, .each = limits.memory_bytes / 4})) {}

LinkHub::~LinkHub() {
  for (auto& [id, link] : links_) {
    link->launches.reset();  // what waits there waits for turns that nobody gives any more
    link->mux->silence();
    link->mux->close({});
  }
}

void LinkHub::add(std::unique_ptr<Stream> stream, Holder holder) {
  end_older(holder.node_name);
  auto link = std::make_shared<Link>();
  if (const auto first = by_name_.find(holder.node_name); first != by_name_.end()) {
    link->comes_second = true;
    link->first_address = links_.at(first->second)->holder.address;
  }
  const std::uint64_t id = link->id = next_++;
  link->holder = std::move(holder);
  link->memory = memory_;
  links_[id] = link;
  handlers_.connected(id, link->holder.node_name, link->holder.certificate, link->holder.address);
  Mux::Handlers on;
  // The link is kept through the callback: a frame may end it.
  on.frame = [this, weak = std::weak_ptr<Link>(link)](Frame f) {
    if (const auto held = weak.lock())
      frame(held, std::move(f));
  };
  // Nobody may look for a link that is ending when its streams say so.
  on.closing = [this, id](const std::string& why) { closed(id, why); };
  // Set before the first byte is read.
  link->mux = Mux::make(std::move(stream), std::move(on));
  link->launches = std::make_shared<LaunchLane>(lane_ways(link));
  link->mux->begin();
}

LaunchLane::Ways LinkHub::lane_ways(const std::shared_ptr<Link>& link) {
  const std::weak_ptr<Link> weak = link;
  LaunchLane::Ways ways;
  ways.send = [weak](const ToAgent& message) {
    if (const auto held = weak.lock())
      held->mux->send(LinkFrame::kMessage, 0, encode(message));
  };
  ways.open = [weak](const std::string& head, std::uint32_t uid) {
    const auto held = weak.lock();
    if (!held || held->mux->closed())
      return std::unique_ptr<Stream>();
    const std::uint64_t id = held->next_stream;
    held->next_stream += 2;
    auto stream = held->mux->stream(id, uid);
    held->mux->send(LinkFrame::kEnvironment, id, head);
    return stream;
  };
  ways.in_turn = [this](std::uint32_t uid, std::size_t bytes, std::function<void()> work) {
    if (handlers_.in_turn)
      handlers_.in_turn(uid, bytes, std::move(work));
    else
      work();
  };
  ways.give_up = [weak](std::string why) {
    if (const auto held = weak.lock())
      held->mux->close(std::move(why));
  };
  return ways;
}

// One node has one agent, but a new connection may come before we know that the old one is dead.
void LinkHub::end_older(const std::string& node_name) {
  std::vector<std::uint64_t> same;
  for (const auto& [id, link] : links_)
    if (link->holder.node_name == node_name)
      same.push_back(id);
  for (std::size_t i = 0; i + limits_.links_per_node <= same.size(); ++i) drop(same[i]);
}

void LinkHub::drop(std::uint64_t id) {
  if (const auto it = links_.find(id); it != links_.end())
    it->second->mux->close({});
}

void LinkHub::closed(std::uint64_t id, const std::string& why) {
  const auto it = links_.find(id);
  if (it == links_.end())
    return;
  const std::shared_ptr<Link> link = it->second;
  links_.erase(it);
  if (!why.empty() && why != Mux::kEnded)
    log_line(LogLevel::kWarning, format("lockstepd: link of {}: {}", link->holder.node_name, why));
  if (const auto name = by_name_.find(link->holder.node_name); name != by_name_.end() && name->second == id)
    by_name_.erase(name);
  link->launches->end();
  handlers_.disconnected(id);
  for (auto calls = std::exchange(link->calls, {}); auto& [number, call] : calls)
    if (call.gone)
      call.gone();
  // A callback of this very connection may be running: it is destroyed later.
  constexpr std::size_t kDyingMax = 64;
  dying_.push_back(link);
  if (dying_.size() > kDyingMax)
    dying_.pop_front();
}

void LinkHub::frame(const std::shared_ptr<Link>& link, Frame f) {
  switch (static_cast<LinkFrame>(f.type)) {
    case LinkFrame::kMessage: return message(link, std::move(f.payload));
    case LinkFrame::kApiCall:
    case LinkFrame::kOpenStream: return call(link, f);
    case LinkFrame::kStreamClose:
      if (const auto it = link->calls.find(f.stream); it != link->calls.end()) {
        const auto gone = std::move(it->second.gone);
        link->calls.erase(it);
        if (gone)
          gone();
      }
      return;
    case LinkFrame::kStreamData:
    case LinkFrame::kStreamWindow:
    case LinkFrame::kApiReply:
    case LinkFrame::kEnvironment: return;
  }
}

void LinkHub::message(const std::shared_ptr<Link>& link, std::string payload) {
  if (payload.size() > kMessageBytesMax)
    return take(link, invalid(format("a message of {} bytes; {} are read at once", payload.size(), kMessageBytesMax)));
  const bool is_short = payload.size() <= kShortMessageBytes || !handlers_.aside;
  if (link->unread.empty() && is_short)
    return take(link, decode_from_agent(payload));
  link->unread.push_back(std::make_shared<const std::string>(std::move(payload)));
  if (link->unread.size() > 1)
    return;
  link->mux->pause(true);
  read_next(link);
}

void LinkHub::read_next(const std::shared_ptr<Link>& link) {
  while (links_.contains(link->id) && !link->unread.empty()) {
    if (link->unread.front()->size() > kShortMessageBytes)
      return read_aside(link);
    const auto payload = std::move(link->unread.front());
    link->unread.pop_front();
    take(link, decode_from_agent(*payload));
  }
  if (links_.contains(link->id))
    link->mux->pause(false);
}

void LinkHub::read_aside(const std::shared_ptr<Link>& link) {
  const auto read = std::make_shared<std::optional<Result<FromAgent>>>();
  const auto done = [this, weak = std::weak_ptr(link), read] {
    const auto held = weak.lock();
    if (!held || !links_.contains(held->id))
      return;
    held->unread.pop_front();
    take(held, std::move(**read));
    read_next(held);
  };
  const auto taken = handlers_.aside(
      link->holder.node_name, [payload = link->unread.front(), read] { read->emplace(decode_from_agent(*payload)); },
      done);
  if (!taken.ok())
    take(link, taken.error());
}

void LinkHub::take(const std::shared_ptr<Link>& link, Result<FromAgent> message) {
  if (!message.ok()) {
    const Error& why = message.error();
    refuse(*link, why.field.empty() ? why.message : format("{} ({})", why.message, why.field));
    return drop(link->id);
  }
  if (const auto* hello = std::get_if<Hello>(&*message))
    link->peer = {hello->peer_port, link->holder.certificate};
  if (auto* telemetry = std::get_if<Telemetry>(&*message)) {
    if (link->welcome && handlers_.measured)
      handlers_.measured(link->holder.node_name, std::move(*telemetry));
    return;
  }
  handlers_.message(link->id, std::move(*message));
}

void LinkHub::call(const std::shared_ptr<Link>& link, const Frame& f) {
  check_unsent(link);
  auto call = decode_api_call(f.payload);
  if (call.ok() && !link->welcome)
    call = denied("this node has not been welcomed: nobody speaks through it yet");
  if (!call.ok())
    return link->refuse(f.stream, call.error());
  if (f.stream % 2 == 0 || link->calls.contains(f.stream) || link->bodies.contains(f.stream) ||
      link->mux->has(f.stream) || link->calls.size() + link->mux->streams() >= limits_.calls_and_streams_max)
    return link->refuse(f.stream, {Errc::kExhausted, "too many calls at once on this node", {}});
  if (f.type == static_cast<std::uint8_t>(LinkFrame::kApiCall))
    call->upgrade.clear();
  HttpRequest request = request_of(*call, link->holder);
  const std::uint64_t bytes = call->bytes > 0 ? call->bytes : call->body.size();
  if (const std::size_t bound = handlers_.body_bound ? handlers_.body_bound(request) : SIZE_MAX; bytes > bound)
    return link->refuse(f.stream, 413,
                        {Errc::kExhausted,
                         format("the body has {} bytes, and {} {} takes at most {} from you", bytes, request.method,
                                request.path, bound),
                         {}});
  if (call->bytes > 0 && call->upgrade.empty())
    return collect(link, f.stream, std::move(request), call->bytes);
  FairHold memory = link->hold();
  if (!memory.resize(f.payload.size() + kCallCost))
    return link->refuse(f.stream, {Errc::kUnavailable, "this node's calls fill their share of memory: try later", {}});
  request.body = std::move(call->body);
  handlers_.call(std::make_shared<ForwardedExchange>(link, f.stream, std::move(request), std::move(memory)));
}

// The body follows. The client may leave meanwhile: then its stream ends.
void LinkHub::collect(const std::shared_ptr<Link>& link, std::uint64_t id, HttpRequest head, std::uint64_t bytes) {
  FairHold memory = link->hold();
  if (bytes > limits_.memory_bytes || !memory.resize(bytes + kCallCost))
    return link->refuse(id, {Errc::kUnavailable, "this node's calls fill their share of memory: try later", {}});
  const std::uint32_t uid = head.peer.uid;
  Link::Body& body = link->bodies[id];
  body = {link->mux->stream(id, uid), std::move(memory), std::move(head), bytes};
  const std::weak_ptr<Link> weak = link;
  body.stream->on_close([weak, id] {
    if (const auto held = weak.lock())
      held->bodies.erase(id);
  });
  body.stream->on_data([this, weak, id](std::string_view piece) {
    const auto held = weak.lock();
    const auto it = held ? held->bodies.find(id) : std::map<std::uint64_t, Link::Body>::iterator();
    if (!held || it == held->bodies.end())
      return;
    std::string& collected = it->second.request.body;
    collected.append(piece);
    if (collected.size() > it->second.wanted)
      return held->mux->close(format("stream {} brought more of a body than was announced", id));
    if (collected.size() < it->second.wanted)
      return;
    Link::Body whole = std::move(it->second);
    held->bodies.erase(it);
    whole.stream->on_data(nullptr);
    whole.stream->on_close(nullptr);
    handlers_.call(std::make_shared<ForwardedExchange>(held, id, std::move(whole.request), std::move(whole.memory),
                                                       std::move(whole.stream)));
  });
}

// An agent that asks and never reads would have us keep everything.
void LinkHub::check_unsent(const std::shared_ptr<Link>& link) {
  if (link->mux->unsent() > limits_.unsent_bytes_max)
    link->mux->close(format("a node that does not read: {} bytes wait for it", link->mux->unsent()));
}

void LinkHub::send(std::vector<NodeDesk::Outgoing> messages) {
  for (auto& out : messages) {
    const auto it = links_.find(out.link);
    if (it == links_.end())
      continue;
    const std::shared_ptr<Link> link = it->second;
    if (auto* welcome = std::get_if<Welcome>(&out.message); welcome && handlers_.complete)
      handlers_.complete(link->holder.node_name, *welcome);
    const bool is_welcome = std::holds_alternative<Welcome>(out.message);
    const auto* refused = std::get_if<Refused>(&out.message);
    const std::string why = refused ? refused->why : "";
    link->launches->take(std::move(out.message), std::move(out.environment));
    if (is_welcome) {
      link->welcome = true;
      by_name_[link->holder.node_name] = link->id;
      tell(link->holder.node_name, "");
      tell_of_takeover(*link);
      handlers_.welcomed(link->holder.node_name);
    } else if (refused) {
      if (!link->welcome)
        tell(link->holder.node_name,
             format("node {} at {}{}{}", link->holder.node_name, link->holder.address, kRefusedWord, why));
      drop(link->id);
    }
    check_unsent(link);
  }
}

// It hears why, before it is cut off: its administrator looks there first.
void LinkHub::refuse(Link& link, const std::string& why) {
  tell(link.holder.node_name,
       format("node {} at {}{}{}", link.holder.node_name, link.holder.address, kRefusedWord, why));
  link.mux->send(LinkFrame::kMessage, 0, encode(ToAgent{Refused{why}}));
}

void LinkHub::tell(const std::string& node_name, std::string what) const {
  if (handlers_.told)
    handlers_.told(node_name, std::move(what));
}

// As a rule the same agent connects again before we know that its first connection is dead. From another address it is
// another machine that shows the same certificate.
void LinkHub::tell_of_takeover(const Link& link) const {
  if (!link.comes_second || link.first_address == link.holder.address)
    return;
  tell(link.holder.node_name,
       format(
           "node {}: an agent at {} has taken over from the one at {}, with the same certificate ({}). If the machine "
           "was not moved, its key was copied: lockstep node revoke {}",
           link.holder.node_name, link.holder.address, link.first_address, link.holder.certificate,
           link.holder.node_name));
}

void LinkHub::tell_others(const std::string& node_name, const std::function<ToAgent(const std::string&)>& make) {
  for (const auto& [other, id] : by_name_)
    if (other != node_name)
      links_.at(id)->mux->send(LinkFrame::kMessage, 0, encode(make(other)));
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
  link->mux->send(LinkFrame::kOpenStream, id, encode(what));
  return link->mux->stream(id, what.ticket.uid);
}

}  // namespace lockstep
