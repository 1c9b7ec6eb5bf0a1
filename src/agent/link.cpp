#include "agent/link.h"

#include "agent/mux.h"
#include "wire/codec.h"

namespace lockstep {

struct AgentLink::Inner : std::enable_shared_from_this<AgentLink::Inner> {
  std::shared_ptr<Mux> mux;
  Handlers handlers;
  std::uint64_t next_id = 1;
  std::map<std::uint64_t, Answered> calls;

  void frame(Frame f);
  void reply(std::uint64_t id, std::string_view payload);
  void fail_calls();
};

void AgentLink::Inner::frame(Frame f) {
  const auto self = shared_from_this();
  switch (static_cast<LinkFrame>(f.type)) {
    case LinkFrame::kMessage: {
      auto message = decode_to_agent(f.payload);
      if (!message.ok())
        return mux->close("the controller sent something unreadable: " + message.error().message);
      return handlers.message(std::move(*message));
    }
    case LinkFrame::kApiReply: return reply(f.stream, f.payload);
    case LinkFrame::kOpenStream: {
      auto what = decode_step_open(f.payload);
      if (!what.ok() || f.stream % 2 != 0 || mux->has(f.stream) || mux->streams() >= Mux::kStreamsMax)
        return mux->send(LinkFrame::kStreamClose, f.stream, {});
      return handlers.open_step(std::move(*what), mux->stream(f.stream));
    }
    default: return;  // agents are not called; what is later than us
  }
}

void AgentLink::Inner::reply(std::uint64_t id, std::string_view payload) {
  const auto it = calls.find(id);
  if (it == calls.end())
    return;
  const Answered answered = std::move(it->second);
  calls.erase(it);
  auto answer = decode_api_reply(payload);
  std::unique_ptr<Stream> opened;
  if (answer.ok() && answer->status == 101)
    opened = mux->stream(id);
  answered(std::move(answer), std::move(opened));
}

void AgentLink::Inner::fail_calls() {
  const Error lost{Errc::kUnavailable, "the connection to the controller was lost while waiting for its answer", {}};
  for (auto& [id, answered] : std::exchange(calls, {})) answered(lost, nullptr);
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
    inner->fail_calls();
    if (const auto callback = std::exchange(inner->handlers.closed, nullptr))
      callback(std::move(why));
  };
  inner_->mux = Mux::start(std::move(stream), std::move(on));
}

AgentLink::~AgentLink() {
  inner_->handlers.closed = nullptr;
  inner_->calls.clear();
  inner_->mux->close({});
}

void AgentLink::send(const FromAgent& message) { inner_->mux->send(LinkFrame::kMessage, 0, encode(message)); }

std::uint64_t AgentLink::call(const ApiCall& call, Answered answered) {
  const std::uint64_t id = inner_->next_id;
  inner_->next_id += 2;
  inner_->calls[id] = std::move(answered);
  inner_->mux->send(call.upgrade.empty() ? LinkFrame::kApiCall : LinkFrame::kOpenStream, id, encode(call));
  return id;
}

void AgentLink::abandon(std::uint64_t call) {
  if (inner_->calls.erase(call) != 0)
    inner_->mux->send(LinkFrame::kStreamClose, call, {});
}

void AgentLink::close(std::string why) { inner_->mux->close(std::move(why)); }

std::uint64_t AgentLink::frames_received() const { return inner_->mux->frames(); }

}  // namespace lockstep
