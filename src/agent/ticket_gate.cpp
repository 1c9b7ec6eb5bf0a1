#include "agent/ticket_gate.h"

#include "base/check.h"
#include "base/text.h"
#include "wire/frame.h"

namespace lockstep {
namespace {

std::uint8_t verb_of(std::uint8_t frame_type) {
  switch (static_cast<IoFrame>(frame_type)) {
    case IoFrame::kAttach:
    case IoFrame::kOutputAck: return kStepOutput;
    case IoFrame::kSignal: return kStepSignal;
    default: return kStepInput;  // bytes, their end, the terminal's size; and what is not known yet
  }
}

class GuardedStream final : public Stream {
 public:
  GuardedStream(std::unique_ptr<Stream> client, std::uint8_t verbs) : client_(std::move(client)), verbs_(verbs) {}

  void on_data(std::function<void(std::string_view)> callback) override {
    client_->on_data([this, callback = std::move(callback)](std::string_view bytes) {
      std::string passed;
      bool good = !refused_;
      const auto fed = reader_.feed(bytes, [&](const Frame& frame) {
        good = good && (verb_of(frame.type) & verbs_) != 0;
        if (good)
          passed += encode_frame(frame.type, frame.stream, frame.payload);
      });
      if (fed.ok() && good) {
        if (!passed.empty())
          callback(passed);
        return;
      }
      if (std::exchange(refused_, true))
        return;
      client_->close();
      if (const auto closed = std::exchange(on_close_, nullptr))
        closed();
    });
  }
  void on_close(std::function<void()> callback) override {
    on_close_ = std::move(callback);
    client_->on_close([this] {
      if (const auto closed = std::exchange(on_close_, nullptr))
        closed();
    });
  }
  void write(std::string bytes) override { client_->write(std::move(bytes)); }
  std::size_t unsent() const override { return client_->unsent(); }
  void on_drained(std::function<void()> callback) override { client_->on_drained(std::move(callback)); }
  void pause(bool paused) override { client_->pause(paused); }
  void close() override { client_->close(); }

 private:
  std::unique_ptr<Stream> client_;
  std::uint8_t verbs_;
  FrameReader reader_;
  std::function<void()> on_close_;
  bool refused_ = false;
};

}  // namespace

TicketGate::TicketGate(std::string node_name, Mac mac) : node_name_(std::move(node_name)), mac_(std::move(mac)) {
  CHECK(mac_ && !node_name_.empty());
}

void TicketGate::set_key(std::string key, Instant cluster_now, Instant boot_now) {
  key_ = std::move(key);
  cluster_then_ = cluster_now;
  boot_then_ = boot_now;
}

Result<void> TicketGate::check(const StepTicket& ticket, std::optional<std::uint32_t> owner, Instant boot_now) const {
  if (key_.empty())
    return denied("this node has no key to verify tickets with yet");
  if (ticket.node != node_name_)
    return denied(format("the ticket is for node {}, not for {}", ticket.node, node_name_));
  if (!equal_in_constant_time(ticket.mac, mac_(key_, signed_text(ticket))))
    return denied("the ticket is not signed by the controller");
  if (cluster_then_ + (boot_now - boot_then_) >= Instant{ticket.expires_us})
    return denied("the ticket has expired");
  if (owner && *owner != ticket.uid)
    return denied(format("the ticket is of user {}, the step of user {}", ticket.uid, *owner));
  if (ticket.verbs == 0)
    return denied("the ticket allows nothing");
  return {};
}

std::unique_ptr<Stream> guarded(std::unique_ptr<Stream> client, std::uint8_t verbs) {
  CHECK(client);
  if ((verbs & kStepEverything) == kStepEverything)
    return client;
  return std::make_unique<GuardedStream>(std::move(client), verbs);
}

}  // namespace lockstep
