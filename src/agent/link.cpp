#include "agent/link.h"

#include "agent/environments.h"
#include "base/check.h"
#include "base/log_line.h"
#include "base/text.h"
#include "link/mux.h"
#include "wire/codec.h"

namespace lockstep {

struct AgentLink::Inner : std::enable_shared_from_this<AgentLink::Inner> {
  std::shared_ptr<Mux> mux;
  Handlers handlers;
  std::uint64_t next_id = 1;
  struct Call {
    Answered answered;
    Room room;
    std::uint64_t owner = 0;
    std::unique_ptr<Stream> stream;  // carries a long body, and a long answer
    ApiReply reply;                  // while it is collected
    std::size_t wanted = 0;          // of its body
  };
  std::map<std::uint64_t, Call> calls;
  Environments environments;
  std::map<std::uint64_t, std::unique_ptr<Stream>> incoming;  // of environments
  decltype(incoming)::node_type ended;                        // the last of them that ended

  void frame(Frame f);
  void environment(const Frame& f);
  void reply(std::uint64_t id, std::string_view payload);
  std::unique_ptr<Stream> open_stream(Call& call, std::uint64_t id);
  void collect(std::uint64_t id, ApiReply head);
  void collected(std::uint64_t id, std::string_view bytes);
  void carry(std::uint64_t id);
  void finish(std::uint64_t id, Result<ApiReply> reply, std::unique_ptr<Stream> opened = nullptr);
  static void fail(std::map<std::uint64_t, Call> lost);
};

void AgentLink::Inner::frame(Frame f) {
  const auto self = shared_from_this();
  switch (static_cast<LinkFrame>(f.type)) {
    case LinkFrame::kMessage: {
      auto message = decode_to_agent(f.payload);
      if (!message.ok())
        return mux->close("the controller sent something unreadable: " + message.error().message);
      if (const auto whole = environments.complete(*message); !whole.ok())
        return mux->close(whole.error().message);
      return handlers.message(std::move(*message));
    }
    case LinkFrame::kApiReply: return reply(f.stream, f.payload);
    case LinkFrame::kOpenStream: {
      auto what = decode_step_open(f.payload);
      if (!what.ok() || f.stream % 2 != 0 || mux->has(f.stream) || mux->streams() >= Mux::kStreamsMax)
        return mux->send(LinkFrame::kStreamClose, f.stream, {});
      const std::uint32_t owner = what->ticket.uid;
      return handlers.open_step(std::move(*what), mux->stream(f.stream, owner));
    }
    case LinkFrame::kEnvironment: return environment(f);
    default: return;  // agents are not called; what is later than us
  }
}

void AgentLink::Inner::environment(const Frame& f) {
  const auto head = decode_long_environment(f.payload);
  if (!head.ok() || f.stream % 2 != 0 || mux->has(f.stream))
    return mux->close("the controller announced something unreadable");
  // Only the launches that name it suffer: the controller says them again. All else on this link goes on.
  if (const auto taken = environments.announced(*head); !taken.ok()) {
    log_line(LogLevel::kWarning, "lockstep-agent: refused: " + taken.error().message);
    return mux->send(LinkFrame::kStreamClose, f.stream, {});
  }
  const std::weak_ptr<Inner> weak = weak_from_this();
  auto& stream = incoming[f.stream] = mux->stream(f.stream);
  stream->on_data([weak, id = head->id](std::string_view piece) {
    if (const auto self = weak.lock())
      self->environments.add(id, piece);
  });
  stream->on_close([weak, id = head->id, number = f.stream] {
    const auto self = weak.lock();
    if (!self)
      return;
    self->environments.ended(id);
    self->ended = self->incoming.extract(number);  // it is calling us
  });
}

void AgentLink::Inner::reply(std::uint64_t id, std::string_view payload) {
  const auto it = calls.find(id);
  if (it == calls.end() || it->second.wanted > 0)
    return;
  auto answer = decode_api_reply(payload);
  if (answer.ok() && answer->bytes > 0)
    return collect(id, std::move(*answer));
  std::unique_ptr<Stream> opened;
  if (answer.ok() && (answer->status == 101 || answer->stream))
    opened = open_stream(it->second, id);
  finish(id, std::move(answer), std::move(opened));
}

// The stream that brought the call's long body, or a new one of its number.
std::unique_ptr<Stream> AgentLink::Inner::open_stream(Call& call, std::uint64_t id) {
  if (!call.stream)
    return mux->stream(id, call.owner);
  call.stream->on_close(nullptr);
  call.stream->on_data(nullptr);
  return std::move(call.stream);
}

// The body follows as a stream of the call's number.
void AgentLink::Inner::collect(std::uint64_t id, ApiReply head) {
  CHECK(calls.contains(id) && head.bytes > 0);
  Call& call = calls.at(id);
  CHECK(call.wanted == 0 && call.reply.body.empty(), format("call {} is collected twice", id));
  if (call.room && !call.room(head.bytes)) {
    mux->send(LinkFrame::kStreamClose, id, {});
    return finish(id, Error{Errc::kExhausted,
                            format("the answer has {} bytes, and others that have not been read yet fill this node's "
                                   "memory for them: read them first, or ask for less",
                                   head.bytes),
                            {}});
  }
  call.wanted = head.bytes;
  call.reply = std::move(head);
  carry(id);
}

void AgentLink::Inner::collected(std::uint64_t id, std::string_view bytes) {
  const auto it = calls.find(id);
  if (it == calls.end() || it->second.wanted == 0)
    return;
  Call& call = it->second;
  call.reply.body.append(bytes);
  if (call.reply.body.size() > call.wanted)
    return mux->close("the controller sent more of an answer than it had announced");
  if (call.reply.body.size() < call.wanted)
    return;
  ApiReply whole = std::move(call.reply);
  whole.bytes = 0;
  finish(id, std::move(whole));
}

void AgentLink::Inner::carry(std::uint64_t id) {
  Call& call = calls.at(id);
  if (!call.stream)
    call.stream = mux->stream(id, call.owner);
  const std::weak_ptr<Inner> weak = weak_from_this();
  call.stream->on_close([weak, id] {
    if (const auto self = weak.lock())
      self->finish(id, Error{Errc::kInternal, "the controller gave the call up: try again", {}});
  });
  call.stream->on_data([weak, id](std::string_view bytes) {
    if (const auto self = weak.lock())
      self->collected(id, bytes);
  });
}

void AgentLink::Inner::finish(std::uint64_t id, Result<ApiReply> reply, std::unique_ptr<Stream> opened) {
  const auto it = calls.find(id);
  if (it == calls.end())
    return;
  const Call call = std::move(it->second);
  calls.erase(it);
  call.answered(std::move(reply), std::move(opened));
}

void AgentLink::Inner::fail(std::map<std::uint64_t, Call> lost) {
  const Error why{Errc::kUnavailable, "the connection to the controller was lost while waiting for its answer",
                  kControllerLost};
  for (auto& [id, call] : lost) call.answered(why, nullptr);
}

AgentLink::AgentLink(std::unique_ptr<Stream> stream, Handlers handlers) : inner_(std::make_shared<Inner>()) {
  inner_->handlers = std::move(handlers);
  const std::weak_ptr<Inner> weak = inner_;
  Mux::Handlers on;
  on.frame = [weak](Frame f) {
    if (const auto inner = weak.lock())
      inner->frame(std::move(f));
  };
  on.closed = [weak](std::string why) {
    const auto inner = weak.lock();
    if (!inner)
      return;
    // Whoever is told of a lost call may ask again at once: by then the link is known to be gone, and perhaps
    // destroyed, which would end its calls in silence.
    auto lost = std::exchange(inner->calls, {});
    if (const auto callback = std::exchange(inner->handlers.closed, nullptr))
      callback(std::move(why));
    Inner::fail(std::move(lost));
  };
  inner_->mux = Mux::start(std::move(stream), std::move(on));
}

AgentLink::~AgentLink() {
  inner_->handlers.closed = nullptr;
  inner_->calls.clear();
  inner_->mux->close({});
}

void AgentLink::send(const FromAgent& message) { inner_->mux->send(LinkFrame::kMessage, 0, encode(message)); }

std::uint64_t AgentLink::call(ApiCall call, Answered answered, Room room) {
  const std::uint64_t id = inner_->next_id;
  inner_->next_id += 2;
  CHECK(answered && id % 2 == 1 && !inner_->calls.contains(id));
  Inner::Call& kept = inner_->calls[id];
  kept.answered = std::move(answered);
  kept.room = std::move(room);
  kept.owner = call.uid;
  if (!call.upgrade.empty() || call.body.size() <= kApiInlineMax) {
    inner_->mux->send(call.upgrade.empty() ? LinkFrame::kApiCall : LinkFrame::kOpenStream, id, encode(call));
    return id;
  }
  std::string body = std::exchange(call.body, {});
  call.bytes = body.size();
  inner_->mux->send(LinkFrame::kApiCall, id, encode(call));
  inner_->carry(id);
  if (const auto it = inner_->calls.find(id); it != inner_->calls.end())
    it->second.stream->write(std::move(body));
  return id;
}

void AgentLink::abandon(std::uint64_t call) {
  if (inner_->calls.erase(call) != 0)  // with it the stream of a long body
    inner_->mux->send(LinkFrame::kStreamClose, call, {});
}

void AgentLink::close(std::string why) { inner_->mux->close(std::move(why)); }

std::uint64_t AgentLink::frames_received() const { return inner_->mux->frames(); }

}  // namespace lockstep
