#include "link/mux.h"

#include "base/byte_queue.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kStreamCredit = 1 << 20;
constexpr std::uint64_t kCreditMax = std::uint64_t{1} << 40;  // whatever a peer says
constexpr std::size_t kPiece = 64 << 10;                      // of one data frame
constexpr std::size_t kAhead = 256 << 10;  // given to the connection before it asks for more: what a newcomer waits for

std::string credit_text(std::uint64_t bytes) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(bytes >> shift));
  return out;
}

// In the frame that ends a stream: more was to come. An older peer reads no payload there.
constexpr std::string_view kCutOff = "cut";

std::uint64_t credit_of(std::string_view payload) {
  std::uint64_t bytes = 0;
  for (char c : payload) bytes = bytes << 8 | static_cast<unsigned char>(c);
  return bytes;
}

}  // namespace

// One byte stream over the connection. In the mux until it has ended; our end of it may be dropped before or after.
class MuxStream {
 public:
  MuxStream(Mux& mux, std::uint64_t id, std::uint64_t owner) : mux_(mux), id_(id), owner_(owner) {}

  void on_data(std::function<void(std::string_view)> callback) {
    on_data_ = std::move(callback);
    deliver();
  }
  void on_close(std::function<void()> callback) {
    on_close_ = std::move(callback);
    deliver();
  }
  void on_drained(std::function<void()> callback) { on_drained_ = std::move(callback); }
  void write(std::string bytes) {
    if (closed_ || closing_)
      return;
    queued_.append(std::move(bytes));
    const bool was_writing = std::exchange(writing_, true);
    push();
    writing_ = was_writing;
  }
  std::size_t unsent() const { return queued_.size(); }
  void pause(bool reading_paused) {
    paused_ = reading_paused;
    deliver();
  }
  void close() {
    closing_ = true;
    push();
  }
  void cut() {
    cutting_ = true;
    close();
  }
  bool was_cut() const { return was_cut_; }
  void keep(std::shared_ptr<void> until_it_ends) { kept_.push_back(std::move(until_it_ends)); }
  // Our end is dropped. What was queued before close() still leaves.
  void leave() {
    left_ = true;
    on_data_ = nullptr;
    on_close_ = on_drained_ = nullptr;
    arrived_.clear();
    cutting_ |= !closing_;
    if (!closing_ || queued_.empty())
      finish();
  }

  // From the connection.
  void arrived(std::string_view bytes) {
    if (bytes.size() > window_)
      return mux_.close(format("stream {} sent more than it had credit for", id_));
    window_ -= bytes.size();
    if (left_)
      return;
    arrived_ += bytes;
    deliver();
  }
  void credited(std::uint64_t bytes) {
    credit_ += std::min(bytes, kCreditMax - std::min(credit_, kCreditMax));
    push();
  }
  void peer_closed(bool was_cut) {
    detach();
    ended_ = true;
    was_cut_ = was_cut;
    deliver();
  }
  // Its turn: one piece.
  void send_piece() {
    in_turn_ = false;
    const std::size_t n = std::min({queued_.size(), static_cast<std::size_t>(credit_), kPiece});
    if (n == 0 || closed_)
      return;
    const std::string piece(queued_.front(n));
    queued_.drop(n);
    credit_ -= n;
    if (!queued_.empty() && credit_ > 0)
      await_turn();
    mux_.send(LinkFrame::kStreamData, id_, piece);  // its credit may come back before this returns
    if (!queued_.empty())
      return;
    if (closing_)
      finish();
    if (const auto callback = on_drained_; callback && !writing_)
      callback();
  }

 private:
  void detach() {
    closed_ = true;
    queued_.clear();
    kept_.clear();
    if (const auto it = mux_.streams_.find(id_); it != mux_.streams_.end() && it->second.get() == this)
      mux_.streams_.erase(it);  // the last but one reference: the caller has another
  }
  void finish() {
    if (closed_)
      return;
    detach();
    mux_.send(LinkFrame::kStreamClose, id_, cutting_ ? kCutOff : std::string_view());
  }
  void await_turn() {
    if (!std::exchange(in_turn_, true))
      mux_.turns_.push(owner_, id_);
  }
  void push() {
    if (closed_)
      return;
    if (closing_ && queued_.empty())
      return finish();
    if (queued_.empty() || credit_ == 0)
      return;
    await_turn();
    mux_.pump();
  }
  // What has come goes to the listener, and only then the end.
  void deliver() {
    if (!paused_ && on_data_ && !arrived_.empty()) {
      const std::string bytes = std::exchange(arrived_, {});
      window_ += bytes.size();
      if (!closed_)
        mux_.send(LinkFrame::kStreamWindow, id_, credit_text(bytes.size()));
      const auto callback = on_data_;
      callback(bytes);
    }
    if (ended_ && arrived_.empty())
      if (const auto callback = std::exchange(on_close_, nullptr))
        callback();
  }

  Mux& mux_;  // not touched once closed
  std::uint64_t id_, owner_;
  std::uint64_t credit_ = kStreamCredit;  // what the peer takes
  std::uint64_t window_ = kStreamCredit;  // what it may still send
  ByteQueue queued_;
  std::string arrived_;
  bool paused_ = false, closing_ = false, closed_ = false, ended_ = false;
  bool in_turn_ = false, writing_ = false, left_ = false;
  bool cutting_ = false, was_cut_ = false;
  std::vector<std::shared_ptr<void>> kept_;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_close_, on_drained_;
};

namespace {

// Our end of a stream. Every call keeps the stream: a callback may drop this object.
class MuxEnd final : public Stream {
 public:
  MuxEnd(std::shared_ptr<Mux> mux, std::shared_ptr<MuxStream> stream)
      : mux_(std::move(mux)), stream_(std::move(stream)) {}
  ~MuxEnd() override { stream_->leave(); }

  void on_data(std::function<void(std::string_view)> callback) override {
    const auto both = keep();
    stream_->on_data(std::move(callback));
  }
  void on_close(std::function<void()> callback) override {
    const auto both = keep();
    stream_->on_close(std::move(callback));
  }
  void write(std::string bytes) override {
    const auto both = keep();
    stream_->write(std::move(bytes));
  }
  std::size_t unsent() const override { return stream_->unsent(); }
  void on_drained(std::function<void()> callback) override { stream_->on_drained(std::move(callback)); }
  void pause(bool reading_paused) override {
    const auto both = keep();
    stream_->pause(reading_paused);
  }
  void close() override {
    const auto both = keep();
    stream_->close();
  }
  void cut() override {
    const auto both = keep();
    stream_->cut();
  }
  bool was_cut() const override { return stream_->was_cut(); }

 private:
  std::pair<std::shared_ptr<Mux>, std::shared_ptr<MuxStream>> keep() const { return {mux_, stream_}; }

  std::shared_ptr<Mux> mux_;
  std::shared_ptr<MuxStream> stream_;
};

}  // namespace

Mux::Mux(std::unique_ptr<Stream> connection, Handlers handlers)
    : connection_(std::move(connection)), handlers_(std::move(handlers)) {}

Mux::~Mux() = default;

std::shared_ptr<Mux> Mux::start(std::unique_ptr<Stream> connection, Handlers handlers) {
  auto mux = make(std::move(connection), std::move(handlers));
  mux->begin();
  return mux;
}

std::shared_ptr<Mux> Mux::make(std::unique_ptr<Stream> connection, Handlers handlers) {
  return std::shared_ptr<Mux>(new Mux(std::move(connection), std::move(handlers)));
}

void Mux::begin() {
  const std::weak_ptr<Mux> weak = weak_from_this();
  connection_->on_close([weak] {
    if (const auto self = weak.lock())
      self->close(std::string(Mux::kEnded));
  });
  connection_->on_drained([weak] {
    if (const auto self = weak.lock())
      self->pump();
  });
  connection_->on_data([weak](std::string_view bytes) {
    if (const auto self = weak.lock(); self && !self->closed_)
      self->receive(bytes);
  });
}

void Mux::send(LinkFrame type, std::uint64_t id, std::string_view payload) {
  if (closed_)
    return;
  if (payload.size() > kPayloadMax)
    return close(format("a message of {} bytes is more than a frame carries", payload.size()));
  connection_->write(encode_frame(static_cast<std::uint8_t>(type), id, payload));
}

// No more is given to the connection than it sends soon: whoever comes next waits behind that much and no more.
void Mux::pump() {
  if (std::exchange(pumping_, true))
    return;
  const auto self = shared_from_this();
  while (!closed_ && connection_->unsent() < kAhead) {
    const auto id = turns_.pop();
    if (!id)
      break;
    if (const auto stream = find(*id))
      stream->send_piece();
  }
  pumping_ = false;
}

std::unique_ptr<Stream> Mux::stream(std::uint64_t id, std::uint64_t owner) {
  auto stream = std::make_shared<MuxStream>(*this, id, owner);
  if (closed_ || has(id))
    stream->peer_closed(true);
  else
    streams_[id] = stream;
  return std::make_unique<MuxEnd>(shared_from_this(), std::move(stream));
}

void Mux::keep(std::uint64_t id, std::shared_ptr<void> until_it_ends) {
  if (const auto stream = find(id))
    stream->keep(std::move(until_it_ends));
}

std::shared_ptr<MuxStream> Mux::find(std::uint64_t id) const {
  const auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second;
}

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
  const auto stream = find(frame.stream);
  switch (static_cast<LinkFrame>(frame.type)) {
    case LinkFrame::kStreamData:
      if (stream)
        stream->arrived(frame.payload);
      return;
    case LinkFrame::kStreamClose:
      if (stream)
        return stream->peer_closed(frame.payload == kCutOff);
      break;
    case LinkFrame::kStreamWindow:
      if (stream && frame.payload.size() == 8)
        stream->credited(credit_of(frame.payload));
      return;
    default: break;
  }
  if (const auto callback = handlers_.frame)
    callback(std::move(frame));
}

void Mux::close(std::string why) {
  if (std::exchange(closed_, true))
    return;
  const auto self = shared_from_this();
  if (const auto closing = handlers_.closing)
    closing(why);
  connection_->close();
  while (!streams_.empty()) {
    const auto stream = streams_.begin()->second;
    stream->peer_closed(true);
  }
  const auto callback = std::exchange(handlers_, {}).closed;
  if (callback)
    callback(std::move(why));
}

}  // namespace lockstep
