#include "frontends/kube/server/event_messages.h"

#include "base/check.h"
#include "frontends/kube/server/client_channels.h"
#include "frontends/kube/server/web_socket.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kLengthBytes = 4;  // the length of what follows, big-endian

std::size_t line_size(std::string_view rest) {
  const std::size_t end = rest.find('\n');
  return end == rest.npos ? rest.size() : end + 1;
}

std::size_t frame_size(std::string_view rest) {
  CHECK(rest.size() >= kLengthBytes);
  std::size_t length = 0;
  for (const char c : rest.substr(0, kLengthBytes)) length = length << 8 | static_cast<unsigned char>(c);
  return kLengthBytes + length;
}

class EventMessages final : public Stream {
 public:
  EventMessages(std::unique_ptr<Stream> client, EventForm form) : client_(std::move(client)), form_(form) {
    client_->on_close([this] { gone(); });
    client_->on_data([this](std::string_view bytes) { hear(bytes); });
  }

  void on_data(std::function<void(std::string_view)>) override {}
  void on_close(std::function<void()> callback) override { closed_ = std::move(callback); }
  void on_drained(std::function<void()> callback) override { client_->on_drained(std::move(callback)); }
  std::size_t unsent() const override { return client_->unsent(); }
  void pause(bool reading_paused) override { client_->pause(reading_paused); }
  void write(std::string bytes) override {
    if (gone_)
      return;
    std::string out;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::size_t size = form_ == EventForm::kLines ? line_size(rest) : frame_size(rest);
      CHECK(size <= rest.size());
      const std::string_view event = rest.substr(0, size);
      out += form_ == EventForm::kLines ? web_socket_frame(WebSocketMessage::Kind::kText, event)
                                        : web_socket_frame(WebSocketMessage::Kind::kBinary, event.substr(kLengthBytes));
      rest.remove_prefix(size);
    }
    client_->write(std::move(out));
  }
  void close() override {
    if (!gone_)
      client_->write(web_socket_frame(WebSocketMessage::Kind::kClose, std::string("\x03\xe8", 2)));  // 1000: as agreed
    client_->close();
  }

 private:
  void hear(std::string_view bytes) {
    if (gone_)
      return;
    const auto read = reader_.feed(bytes, [this](const WebSocketMessage& one) {
      if (one.kind == WebSocketMessage::Kind::kPing && !gone_)
        client_->write(web_socket_frame(WebSocketMessage::Kind::kPong, one.data));
      else if (one.kind == WebSocketMessage::Kind::kClose)
        gone();
    });
    if (!read.ok() || client_->unsent() > kUnreadMost)
      gone();
  }
  void gone() {
    if (!std::exchange(gone_, true) && closed_)
      closed_();
  }

  const std::unique_ptr<Stream> client_;
  const EventForm form_;
  WebSocketReader reader_;
  std::function<void()> closed_;
  bool gone_ = false;
};

}  // namespace

std::unique_ptr<Stream> event_messages(std::unique_ptr<Stream> client, EventForm form) {
  return std::make_unique<EventMessages>(std::move(client), form);
}

}  // namespace lockstep::kube
