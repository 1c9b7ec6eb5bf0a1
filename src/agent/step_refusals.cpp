#include "agent/step_refusals.h"

#include <algorithm>

#include "base/check.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

constexpr std::size_t kKept = 1024;

std::string frame(IoFrame type, std::uint32_t rank, std::string_view payload) {
  return encode_frame(static_cast<std::uint8_t>(type), rank, payload);
}

std::string words_of(const StepRefusal& refusal) {
  using namespace std::string_view_literals;
  std::string words;
  for (const std::uint32_t rank : refusal.ranks) {
    if (rank == refusal.ranks.front())
      words += frame(IoFrame::kFailed, rank, refusal.why);
    words += frame(IoFrame::kOutputEof, rank, "\1\0\0\0\0\0\0\0\0"sv);
    words += frame(IoFrame::kOutputEof, rank, "\2\0\0\0\0\0\0\0\0"sv);
    words += frame(IoFrame::kExited, rank, "\1\0\0"sv);
  }
  return words;
}

// Says its words once, when it is attached to; whatever else it hears changes nothing.
class RefusalStream final : public Stream {
 public:
  RefusalStream(EventLoop& loop, std::string words) : loop_(loop), inner_(std::make_shared<Inner>()) {
    inner_->words = std::move(words);
  }
  ~RefusalStream() override { inner_->listener = nullptr; }

  void on_data(std::function<void(std::string_view)> callback) override {
    inner_->listener = std::move(callback);
    say();
  }
  void on_close(std::function<void()>) override {}
  void write(std::string bytes) override {
    const auto fed = inner_->reader.feed(bytes, [this](const Frame& heard) {
      inner_->attached = inner_->attached || heard.type == static_cast<std::uint8_t>(IoFrame::kAttach);
    });
    if (fed.ok())
      say();
  }
  std::size_t unsent() const override { return 0; }
  void on_drained(std::function<void()>) override {}
  void pause(bool) override {}
  void close() override { inner_->listener = nullptr; }

 private:
  struct Inner {
    std::function<void(std::string_view)> listener;
    FrameReader reader;
    std::string words;
    bool attached = false;
  };
  // From the loop: the listener may be in the middle of writing to us.
  void say() {
    loop_.post([inner = inner_] {
      if (inner->listener && inner->attached && !inner->words.empty())
        inner->listener(std::exchange(inner->words, {}));
    });
  }

  EventLoop& loop_;
  std::shared_ptr<Inner> inner_;
};

}  // namespace

void StepRefusals::add(StepRefusal refusal) {
  kept_.push_back(std::move(refusal));
  if (kept_.size() > kKept)
    kept_.pop_front();
  CHECK(kept_.size() <= kKept);
}

std::unique_ptr<Stream> StepRefusals::stream(const WorkId& key) const {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&key](const StepRefusal& r) { return r.key == key; });
  if (found == kept_.end())
    return nullptr;
  return std::make_unique<RefusalStream>(loop_, words_of(*found));
}

}  // namespace lockstep
