#include "frontends/kube/server/client_channels.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/server/shown_token.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr unsigned kCloseSignal = 255;  // "v5.channel.k8s.io": no more of the channel whose number follows
constexpr std::string_view kChannelWords[] = {"stdin", "stdout", "stderr", "error", "resize"};

// What both protocols do with their connection.
class StreamChannels : public ClientChannels {
 public:
  void begin(std::unique_ptr<Stream> stream, Events events) override {
    events_ = std::move(events);
    stream_ = std::move(stream);
    stream_->on_close([this] { gone(); });
    stream_->on_drained([this] {
      if (!gone_)
        events_.drained();
    });
    stream_->on_data([this](std::string_view bytes) {
      if (!gone_ && (!feed(bytes) || stream_->unsent() > kUnreadMost))
        gone();
    });
    begun();
  }
  std::size_t unsent() const override { return gone_ ? 0 : stream_->unsent(); }
  void pause(bool reading_paused) override {
    if (!gone_)
      stream_->pause(reading_paused);
  }

 protected:
  virtual bool feed(std::string_view bytes) = 0;  // false: the client has broken the protocol
  virtual void begun() {}
  void gone() {
    if (!std::exchange(gone_, true))
      events_.gone();
  }

  std::unique_ptr<Stream> stream_;
  Events events_;
  bool gone_ = false;
};

class WebSocketChannels final : public StreamChannels {
 public:
  WebSocketChannels(bool as_text, Greets greets) : as_text_(as_text), greets_(greets) {}

  void send(unsigned channel, std::string_view bytes) override {
    if (gone_)
      return;
    constexpr std::size_t kPiece = 128 << 10;
    do {
      const std::string_view piece = bytes.substr(0, kPiece);
      bytes.remove_prefix(piece.size());
      std::string data(1, static_cast<char>(as_text_ ? '0' + channel : channel));
      data += as_text_ ? base64_text(piece) : std::string(piece);
      stream_->write(
          web_socket_frame(as_text_ ? WebSocketMessage::Kind::kText : WebSocketMessage::Kind::kBinary, data));
    } while (!bytes.empty());
  }

  void finish() override {
    if (gone_)
      return;
    stream_->write(web_socket_frame(WebSocketMessage::Kind::kClose, std::string("\x03\xe8", 2)));  // 1000: as agreed
    stream_->close();
  }

 private:
  bool feed(std::string_view bytes) override {
    return reader_.feed(bytes, [this](const WebSocketMessage& one) { take(one); }).ok();
  }
  void begun() override {
    if (greets_ == Greets::kYes)
      send(1, {});
    events_.ready();
  }

  void take(const WebSocketMessage& one) {
    using Kind = WebSocketMessage::Kind;
    if (gone_)
      return;
    if (one.kind == Kind::kPing)
      return stream_->write(web_socket_frame(Kind::kPong, one.data));
    if (one.kind == Kind::kClose)
      return gone();
    if (one.kind == Kind::kPong || one.data.empty())
      return;
    std::string data = one.data.substr(1);
    const unsigned channel =
        as_text_ ? static_cast<unsigned>(one.data[0] - '0') : static_cast<unsigned char>(one.data[0]);
    if (as_text_) {
      auto bytes = bytes_of_base64(data);
      if (!bytes)
        return gone();
      data = std::move(*bytes);
    }
    if (channel == kCloseSignal && data.size() == 1)
      events_.ended(static_cast<unsigned char>(data[0]));
    else if (!data.empty())
      events_.data(channel, data);
  }

  const bool as_text_;
  const Greets greets_;
  WebSocketReader reader_;
};

class SpdyChannels final : public StreamChannels {
 public:
  explicit SpdyChannels(std::size_t streams) : expected_(streams) {}

  void send(unsigned channel, std::string_view bytes) override {
    if (const auto at = ids_.find(channel); at != ids_.end() && !gone_ && !bytes.empty())
      session_.data(at->second, bytes, false);
  }
  void finish() override {
    if (gone_)
      return;
    for (const auto& [channel, id] : ids_)
      if (channel != 0 && channel != 4)
        session_.data(id, {}, true);
    stream_->close();
  }

 private:
  bool feed(std::string_view bytes) override { return session_.feed(bytes).ok(); }

  void opened(std::uint32_t id, const SpdyHeaders& headers) {
    const auto type = headers.find("streamtype");
    const auto word = std::ranges::find(kChannelWords, type == headers.end() ? std::string_view() : type->second);
    if (word == std::end(kChannelWords) || ids_.size() >= expected_)
      return session_.reset(id);
    const auto channel = static_cast<unsigned>(word - std::begin(kChannelWords));
    ids_[channel] = id;
    channels_[id] = channel;
    session_.reply(id);
    if (ids_.size() == expected_)
      events_.ready();
  }

  const std::size_t expected_;
  std::map<unsigned, std::uint32_t> ids_;
  std::map<std::uint32_t, unsigned> channels_;
  SpdySession session_{{.opened = [this](std::uint32_t id, const SpdyHeaders& headers, bool) { opened(id, headers); },
                        .data =
                            [this](std::uint32_t id, std::string_view bytes, bool last) {
                              const auto at = channels_.find(id);
                              if (at == channels_.end())
                                return;
                              if (!bytes.empty())
                                events_.data(at->second, bytes);
                              if (last)
                                events_.ended(at->second);
                            },
                        .reset =
                            [this](std::uint32_t id) {
                              if (const auto at = channels_.find(id); at != channels_.end())
                                events_.ended(at->second);
                            },
                        .going = [] {}},
                       [this](std::string bytes) {
                         if (!gone_)
                           stream_->write(std::move(bytes));
                       }};
};

}  // namespace

std::string chosen_protocol(const std::string& offered, const Protocols& spoken) {
  for (const std::string& one : split(offered, ','))
    if (std::ranges::find(spoken, trim(one)) != spoken.end())
      return std::string(trim(one));
  return {};
}

std::map<std::string, std::string> web_socket_answer(const HttpRequest& http,
                                                     const std::function<std::string(std::string_view)>& sha1,
                                                     const std::string& protocol) {
  std::map<std::string, std::string> out{
      {"Sec-WebSocket-Accept", web_socket_accept(header_of(http, "sec-websocket-key"), sha1)}};
  if (!protocol.empty())
    out["Sec-WebSocket-Protocol"] = protocol;
  return out;
}

bool asks_for(const HttpRequest& http, std::string_view upgrade) {
  return lower(header_of(http, "upgrade")) == lower(std::string(upgrade));
}

namespace {

bool is_since_version_4(std::string_view protocol) {
  return protocol.starts_with("v4.") || protocol.starts_with("v5.");
}

}  // namespace

std::unique_ptr<ClientChannels> web_socket_channels(const HttpRequest& http,
                                                    const std::function<std::string(std::string_view)>& sha1,
                                                    const Protocols& spoken, Greets greets) {
  const std::string offered = offered_protocols(http);
  const std::string protocol = chosen_protocol(offered, spoken);
  if (protocol.empty() && !offered.empty())
    return nullptr;
  auto out = std::make_unique<WebSocketChannels>(protocol.find("base64") != protocol.npos, greets);
  out->protocol = "websocket";
  out->told_in_status = is_since_version_4(protocol);
  out->headers = web_socket_answer(http, sha1, protocol);
  return out;
}

std::unique_ptr<ClientChannels> spdy_channels(const HttpRequest& http, std::size_t streams) {
  const std::string protocol =
      chosen_protocol(header_of(http, "x-stream-protocol-version"),
                      {"v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"});
  if (protocol.empty())
    return nullptr;
  auto out = std::make_unique<SpdyChannels>(streams);
  out->protocol = "SPDY/3.1";
  out->told_in_status = is_since_version_4(protocol);
  out->headers = {{"X-Stream-Protocol-Version", protocol}};
  return out;
}

}  // namespace lockstep::kube
