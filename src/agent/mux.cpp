#include "agent/mux.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kStreamCredit = 1 << 20;
constexpr std::size_t kPiece = 256 << 10;  // of one data frame

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

// One byte stream over the connection.
class MuxStream final : public Stream {
 public:
  MuxStream(std::shared_ptr<Mux> mux, std::uint64_t id) : mux_(std::move(mux)), id_(id) { mux_->streams_[id_] = this; }
  ~MuxStream() override {
    if (detach())
      mux_->send(LinkFrame::kStreamClose, id_, {});
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

  // From the connection; after any of these the object may be gone.
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
    mux_->streams_.erase(id_);
    return true;
  }
  void push() {
    while (!queued_.empty() && credit_ > 0 && !closed_) {
      const std::size_t n = std::min({queued_.size(), static_cast<std::size_t>(credit_), kPiece});
      const std::string piece = n == queued_.size() ? std::exchange(queued_, {}) : queued_.substr(0, n);
      queued_.erase(0, std::min(n, queued_.size()));
      credit_ -= n;
      mux_->send(LinkFrame::kStreamData, id_, piece);  // its credit may come back before this returns
    }
    if (closing_ && queued_.empty() && detach())
      mux_->send(LinkFrame::kStreamClose, id_, {});
  }
  // What has come goes to the listener, and only then the end.
  void deliver() {
    const std::weak_ptr<int> here = alive_;
    if (!paused_ && on_data_ && !arrived_.empty()) {
      const std::string bytes = std::exchange(arrived_, {});
      if (!closed_)
        mux_->send(LinkFrame::kStreamWindow, id_, credit_text(bytes.size()));
      const auto callback = on_data_;
      callback(bytes);
      if (here.expired())
        return;
    }
    if (ended_ && arrived_.empty())
      if (const auto callback = std::exchange(on_close_, nullptr))
        callback();
  }

  std::shared_ptr<Mux> mux_;
  std::uint64_t id_;
  std::uint64_t credit_ = kStreamCredit;
  std::string queued_, arrived_;
  bool paused_ = false, closing_ = false, closed_ = false, ended_ = false;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_close_, on_drained_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // a callback may destroy this object
};

Mux::Mux(std::unique_ptr<Stream> connection, Handlers handlers)
    : connection_(std::move(connection)), handlers_(std::move(handlers)) {}

Mux::~Mux() = default;

std::shared_ptr<Mux> Mux::start(std::unique_ptr<Stream> connection, Handlers handlers) {
  const std::shared_ptr<Mux> mux(new Mux(std::move(connection), std::move(handlers)));
  const std::weak_ptr<Mux> weak = mux;
  mux->connection_->on_close([weak] {
    if (const auto self = weak.lock())
      self->close("the other side closed the connection");
  });
  mux->connection_->on_data([weak](std::string_view bytes) {
    if (const auto self = weak.lock(); self && !self->closed_)
      self->receive(bytes);
  });
  return mux;
}

void Mux::send(LinkFrame type, std::uint64_t id, std::string_view payload) {
  if (!closed_)
    connection_->write(encode_frame(static_cast<std::uint8_t>(type), id, payload));
}

std::unique_ptr<Stream> Mux::stream(std::uint64_t id) { return std::make_unique<MuxStream>(shared_from_this(), id); }

void Mux::receive(std::string_view bytes) {
  const auto fed = reader_.feed(bytes, [this](Frame frame) {
    if (!closed_)
      take(std::move(frame));
  });
  if (!fed.ok())
    close(fed.error().message);
}

void Mux::take(Frame frame) {
  ++frames_;
  const auto it = streams_.find(frame.stream);
  switch (static_cast<LinkFrame>(frame.type)) {
    case LinkFrame::kStreamData:
      if (it != streams_.end())
        it->second->arrived(frame.payload);
      return;
    case LinkFrame::kStreamClose:
      if (it != streams_.end())
        it->second->peer_closed();
      return;
    case LinkFrame::kStreamWindow:
      if (it != streams_.end() && frame.payload.size() == 8)
        it->second->credited(credit_of(frame.payload));
      return;
    default:
      if (const auto callback = handlers_.frame)
        callback(std::move(frame));
  }
}

void Mux::close(std::string why) {
  if (std::exchange(closed_, true))
    return;
  const auto self = shared_from_this();
  connection_->close();
  while (!streams_.empty()) streams_.begin()->second->peer_closed();
  const auto callback = std::exchange(handlers_, {}).closed;
  if (callback)
    callback(std::move(why));
}

}  // namespace lockstep
