#include "agent/link.h"

#include "wire/codec.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kStreamCredit = 1 << 20;
constexpr std::size_t kPiece = 256 << 10;  // of one data frame
constexpr std::size_t kStreamsMax = 20'000;

std::string credit_text(std::uint64_t bytes) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(bytes >> shift));
  return out;
}

std::uint64_t credit_of(std::string_view payload) {
  std::uint64_t bytes = 0;
  for (char c : payload) bytes = bytes << 8 | static_cast<unsigned char>(c);
  return bytes;
}

}  // namespace

class LinkedStream;

struct AgentLink::Inner : std::enable_shared_from_this<AgentLink::Inner> {
  std::unique_ptr<Stream> stream;
  Handlers handlers;
  FrameReader reader;
  bool closed = false;
  std::uint64_t frames = 0, next_id = 1;
  std::map<std::uint64_t, Answered> calls;
  std::map<std::uint64_t, LinkedStream*> streams;

  void send(LinkFrame type, std::uint64_t id, std::string_view payload) {
    if (!closed)
      stream->write(encode_frame(static_cast<std::uint8_t>(type), id, payload));
  }
  void receive(std::string_view bytes);
  void frame(Frame f);
  void reply(std::uint64_t id, std::string_view payload);
  void end(std::string why);
};

// One byte stream over the link.
class LinkedStream final : public Stream {
 public:
  LinkedStream(std::shared_ptr<AgentLink::Inner> link, std::uint64_t id) : link_(std::move(link)), id_(id) {
    link_->streams[id_] = this;
  }
  ~LinkedStream() override {
    if (detach())
      link_->send(LinkFrame::kStreamClose, id_, {});
  }

  void on_data(std::function<void(std::string_view)> callback) override {
    on_data_ = std::move(callback);
    deliver();
  }
  void on_close(std::function<void()> callback) override {
    on_close_ = std::move(callback);
    deliver();
  }
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
    deliver();
  }
  void close() override {
    closing_ = true;
    push();
  }

  // From the link; after any of these the object may be gone.
  void arrived(std::string_view bytes) {
    arrived_ += bytes;
    deliver();
  }
  void credited(std::uint64_t bytes) {
    credit_ += bytes;
    const bool was_full = !queued_.empty();
    push();
    if (was_full && queued_.empty() && on_drained_) {
      const auto callback = on_drained_;
      callback();
    }
  }
  void peer_closed() {
    detach();
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
    while (!queued_.empty() && credit_ > 0 && !closed_) {
      const std::size_t n = std::min({queued_.size(), static_cast<std::size_t>(credit_), kPiece});
      link_->send(LinkFrame::kStreamData, id_, std::string_view(queued_).substr(0, n));
      queued_.erase(0, n);
      credit_ -= n;
    }
    if (closing_ && queued_.empty() && detach())
      link_->send(LinkFrame::kStreamClose, id_, {});
  }
  // What has come goes to the listener, and only then the end.
  void deliver() {
    const std::weak_ptr<int> here = alive_;
    if (!paused_ && on_data_ && !arrived_.empty()) {
      const std::string bytes = std::exchange(arrived_, {});
      if (!closed_)
        link_->send(LinkFrame::kStreamWindow, id_, credit_text(bytes.size()));
      const auto callback = on_data_;
      callback(bytes);
      if (here.expired())
        return;
    }
    if (ended_ && arrived_.empty())
      if (const auto callback = std::exchange(on_close_, nullptr))
        callback();
  }

  std::shared_ptr<AgentLink::Inner> link_;
  std::uint64_t id_;
  std::uint64_t credit_ = kStreamCredit;
  std::string queued_, arrived_;
  bool paused_ = false, closing_ = false, closed_ = false, ended_ = false;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_close_, on_drained_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // a callback may destroy this object
};

void AgentLink::Inner::receive(std::string_view bytes) {
  const auto self = shared_from_this();
  const auto fed = reader.feed(bytes, [this](Frame f) {
    if (!closed)
      frame(std::move(f));
  });
  if (!fed.ok())
    end(fed.error().message);
}

void AgentLink::Inner::frame(Frame f) {
  ++frames;
  switch (static_cast<LinkFrame>(f.type)) {
    case LinkFrame::kMessage: {
      auto message = decode_to_agent(f.payload);
      if (!message.ok())
        return end("the controller sent something unreadable: " + message.error().message);
      return handlers.message(std::move(*message));
    }
    case LinkFrame::kApiReply: return reply(f.stream, f.payload);
    case LinkFrame::kOpenStream: {
      const auto ticket = decode_step_ticket(f.payload);
      if (!ticket.ok() || f.stream % 2 != 0 || streams.contains(f.stream) || streams.size() >= kStreamsMax)
        return send(LinkFrame::kStreamClose, f.stream, {});
      return handlers.open_step(*ticket, std::make_unique<LinkedStream>(shared_from_this(), f.stream));
    }
    case LinkFrame::kStreamData:
      if (const auto it = streams.find(f.stream); it != streams.end())
        it->second->arrived(f.payload);
      return;
    case LinkFrame::kStreamClose:
      if (const auto it = streams.find(f.stream); it != streams.end())
        it->second->peer_closed();
      return;
    case LinkFrame::kStreamWindow:
      if (const auto it = streams.find(f.stream); it != streams.end() && f.payload.size() == 8)
        it->second->credited(credit_of(f.payload));
      return;
    case LinkFrame::kApiCall: return;  // agents are not called
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
    opened = std::make_unique<LinkedStream>(shared_from_this(), id);
  answered(std::move(answer), std::move(opened));
}

void AgentLink::Inner::end(std::string why) {
  if (std::exchange(closed, true))
    return;
  const auto self = shared_from_this();
  stream->close();
  const Error lost{Errc::kUnavailable, "the connection to the controller was lost while waiting for its answer", {}};
  for (auto& [id, answered] : std::exchange(calls, {})) answered(lost, nullptr);
  while (!streams.empty()) streams.begin()->second->peer_closed();
  if (const auto callback = std::exchange(handlers.closed, nullptr))
    callback(std::move(why));
}

AgentLink::AgentLink(std::unique_ptr<Stream> stream, Handlers handlers) : inner_(std::make_shared<Inner>()) {
  inner_->stream = std::move(stream);
  inner_->handlers = std::move(handlers);
  const std::weak_ptr<Inner> weak = inner_;
  inner_->stream->on_close([weak] {
    if (const auto inner = weak.lock())
      inner->end("the controller closed the connection");
  });
  inner_->stream->on_data([weak](std::string_view bytes) {
    if (const auto inner = weak.lock(); inner && !inner->closed)
      inner->receive(bytes);
  });
}

AgentLink::~AgentLink() {
  inner_->handlers.closed = nullptr;
  inner_->calls.clear();
  inner_->end({});
}

void AgentLink::send(const FromAgent& message) { inner_->send(LinkFrame::kMessage, 0, encode(message)); }

std::uint64_t AgentLink::call(const ApiCall& call, Answered answered) {
  const std::uint64_t id = inner_->next_id;
  inner_->next_id += 2;
  inner_->calls[id] = std::move(answered);
  inner_->send(call.upgrade.empty() ? LinkFrame::kApiCall : LinkFrame::kOpenStream, id, encode(call));
  return id;
}

void AgentLink::abandon(std::uint64_t call) {
  if (inner_->calls.erase(call) != 0)
    inner_->send(LinkFrame::kStreamClose, call, {});
}

void AgentLink::close(std::string why) { inner_->end(std::move(why)); }

std::uint64_t AgentLink::frames_received() const { return inner_->frames; }

}  // namespace lockstep
