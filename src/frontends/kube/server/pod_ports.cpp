// Port forwarding: over SPDY each connection is a pair of streams, one for its bytes and one for why it failed; newer
// clients carry the same SPDY in messages of a WebSocket, others have two channels of one for each port.
#include <algorithm>

#include "base/text.h"
#include "frontends/kube/server/client_channels.h"
#include "frontends/kube/server/pod_streams.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kProtocol = "portforward.k8s.io", kTunnel = "SPDY/3.1+portforward.k8s.io";
const Protocols kChannels = {"v4.channel.k8s.io", "v4.base64.channel.k8s.io"};
constexpr std::size_t kPortsMost = 16;

// Source: what `kubectl port-forward` prints of a real node's.
std::string nobody_listens(std::uint16_t port, const std::string& pod) {
  return format(
      "error forwarding port {0} to pod {1}: failed to connect to localhost:{0} inside its network: dial tcp4 "
      "127.0.0.1:{0}: connect: connection refused",
      port, pod);
}

class Forwarding final : public Conversation, public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(std::shared_ptr<StreamRoom> room, Asked request, ContainerAsk ask, bool in_web_socket)
      : room_(std::move(room)), request_(std::move(request)), ask_(std::move(ask)), in_web_socket_(in_web_socket) {}

  void begin(std::unique_ptr<Stream> client) {
    client_ = std::move(client);
    client_->on_close([this] { end(); });
    client_->on_drained([this] {
      for (auto& [id, one] : connections_)
        if (one.node)
          one.node->pause(false);
    });
    client_->on_data([this](std::string_view bytes) { from_client(bytes); });
  }

 private:
  struct Connection {
    std::uint32_t data = 0, error = 0;
    std::unique_ptr<Stream> node;
    std::string early;  // what the client sent before the node was there
    bool client_done = false;
    bool reached = false;  // somebody listens there
  };

  void from_client(std::string_view bytes) {
    if (over_)
      return;
    gone_.clear();
    if (!in_web_socket_) {
      if (!session_.feed(bytes).ok())
        end();
      return;
    }
    const auto read = reader_.feed(bytes, [this](const WebSocketMessage& one) {
      if (over_)
        return;
      if (one.kind == WebSocketMessage::Kind::kPing)
        client_->write(web_socket_frame(WebSocketMessage::Kind::kPong, one.data));
      else if (one.kind == WebSocketMessage::Kind::kClose ||
               (one.kind == WebSocketMessage::Kind::kBinary && !session_.feed(one.data).ok()))
        end();
    });
    if (!read.ok())
      end();
  }

  void opened(std::uint32_t stream, const SpdyHeaders& headers) {
    const auto said = [&](std::string_view name) {
      const auto at = headers.find(name);
      return at == headers.end() ? std::string() : at->second;
    };
    const auto port = parse_uint(said("port"));
    const std::string type = said("streamtype");
    if (!port || *port == 0 || *port > UINT16_MAX || (type != "data" && type != "error"))
      return session_.reset(stream);
    // Both streams of a connection name it; older clients open them one behind the other.
    std::string name = said("requestid");
    if (name.empty())
      name = std::to_string(type == "error" ? stream : stream - 2);
    Connection& one = connections_[name];
    names_[stream] = name;
    (type == "data" ? one.data : one.error) = stream;
    session_.reply(stream);
    if (one.data != 0 && one.error != 0)
      connect(name, static_cast<std::uint16_t>(*port));
  }

  void connect(const std::string& name, std::uint16_t port) {
    ContainerAsk ask = ask_;
    ask.port = port;
    request_->visit->reach(ask, [weak = weak_from_this(), name, port](Result<std::unique_ptr<Stream>> node) {
      if (const auto self = weak.lock())
        self->reached(name, port, std::move(node));
    });
  }

  void reached(const std::string& name, std::uint16_t port, Result<std::unique_ptr<Stream>> node) {
    const auto at = connections_.find(name);
    if (over_ || at == connections_.end())
      return;
    Connection& one = at->second;
    if (!node.ok()) {
      session_.data(one.error,
                    format("error forwarding port {} to pod {}: {}", port, request_->target.name, node.error().message),
                    true);
      return close(name, true);
    }
    one.node = std::move(*node);
    Stream& stream = *one.node;
    const std::uint32_t data = one.data;
    stream.on_data([this, data, name, &stream](std::string_view bytes) {
      const auto at = connections_.find(name);
      if (over_ || at == connections_.end())
        return;
      if (!bytes.empty() && !std::exchange(at->second.reached, true))
        bytes.remove_prefix(1);
      if (bytes.empty())
        return;
      session_.data(data, bytes, false);
      if (client_->unsent() > kStreamHighWater)
        stream.pause(true);
    });
    stream.on_drained([this] {
      if (!over_)
        client_->pause(false);
    });
    stream.on_close([this, name, port] {
      const auto at = connections_.find(name);
      const bool failed = at != connections_.end() && !at->second.reached && !at->second.client_done;
      if (failed && !over_)
        session_.data(at->second.error, nobody_listens(port, request_->target.name), true);
      close(name, failed);
    });
    if (!one.early.empty())
      stream.write(std::exchange(one.early, {}));
    if (one.client_done)
      stream.close();
    stream.pause(false);
  }

  void data(std::uint32_t stream, std::string_view bytes, bool last) {
    const auto name = names_.find(stream);
    const auto at = name == names_.end() ? connections_.end() : connections_.find(name->second);
    if (at == connections_.end() || at->second.data != stream)
      return;
    Connection& one = at->second;
    one.client_done = one.client_done || last;
    if (!one.node) {
      if (one.early.size() + bytes.size() > kStreamHighWater)
        return close(name->second, true);
      one.early.append(bytes);
      return;
    }
    if (!bytes.empty())
      one.node->write(std::string(bytes));
    if (last)
      one.node->close();
    else if (one.node->unsent() > kStreamHighWater)
      client_->pause(true);
  }

  void reset(std::uint32_t stream) {
    if (const auto name = names_.find(stream); name != names_.end())
      close(std::string(name->second), false);
  }

  // The node's stream may be calling us: it is let go when the client says something next.
  void close(const std::string& name, bool failed) {
    const auto at = connections_.find(name);
    if (over_ || at == connections_.end())
      return;
    Connection one = std::move(at->second);
    connections_.erase(at);
    names_.erase(one.data);
    names_.erase(one.error);
    if (one.data != 0)
      session_.data(one.data, {}, true);
    if (one.error != 0 && !failed)
      session_.data(one.error, {}, true);
    if (one.node) {
      one.node->close();
      gone_.push_back(std::move(one.node));
    }
  }

  void end() {
    if (std::exchange(over_, true))
      return;
    for (auto& [name, one] : connections_)
      if (one.node)
        one.node->close();
    client_->close();
    room_->end(this);
  }

  const std::shared_ptr<StreamRoom> room_;
  const Asked request_;
  const ContainerAsk ask_;
  const bool in_web_socket_;
  std::unique_ptr<Stream> client_;
  WebSocketReader reader_;
  std::map<std::string, Connection> connections_;
  std::map<std::uint32_t, std::string> names_;  // of the connections, by their streams
  std::vector<std::unique_ptr<Stream>> gone_;
  bool over_ = false;
  SpdySession session_{
      {.opened = [this](std::uint32_t stream, const SpdyHeaders& headers, bool) { opened(stream, headers); },
       .data = [this](std::uint32_t stream, std::string_view bytes, bool last) { data(stream, bytes, last); },
       .reset = [this](std::uint32_t stream) { reset(stream); },
       .going = [] {}},
      [this](std::string bytes) {
        if (!over_)
          client_->write(in_web_socket_ ? web_socket_frame(WebSocketMessage::Kind::kBinary, bytes) : std::move(bytes));
      }};
};

// Older clients over WebSockets: two channels for each port of the path's query, one for its bytes and one for why it
// failed. Each begins with the port's number.
class PortChannels final : public Conversation, public std::enable_shared_from_this<PortChannels> {
 public:
  PortChannels(std::shared_ptr<StreamRoom> room, Asked request, ContainerAsk ask, std::vector<std::uint16_t> ports,
               std::unique_ptr<ClientChannels> client)
      : room_(std::move(room)),
        request_(std::move(request)),
        ask_(std::move(ask)),
        ports_(std::move(ports)),
        client_(std::move(client)) {
    nodes_.resize(ports_.size());
  }

  void begin(std::unique_ptr<Stream> connection) {
    client_->begin(std::move(connection),
                   {.data = [this](unsigned channel, std::string_view bytes) { from_client(channel, bytes); },
                    .ended = [](unsigned) {},
                    .ready = [] {},
                    .gone = [this] { end(); },
                    .drained =
                        [this] {
                          for (auto& node : nodes_)
                            if (node.stream)
                              node.stream->pause(false);
                        }});
    for (std::size_t i = 0; i < ports_.size(); ++i) {
      const std::string number{static_cast<char>(ports_[i] & 0xff), static_cast<char>(ports_[i] >> 8)};
      client_->send(static_cast<unsigned>(2 * i), number);
      client_->send(static_cast<unsigned>(2 * i + 1), number);
      ContainerAsk ask = ask_;
      ask.port = ports_[i];
      request_->visit->reach(ask, [weak = weak_from_this(), i](Result<std::unique_ptr<Stream>> node) {
        if (const auto self = weak.lock())
          self->reached(i, std::move(node));
      });
    }
  }

 private:
  struct Node {
    std::unique_ptr<Stream> stream;
    std::string early;  // what the client sent before it was there
    bool over = false;
    bool reached = false;  // somebody listens there
  };

  void reached(std::size_t i, Result<std::unique_ptr<Stream>> node) {
    if (over_)
      return;
    if (!node.ok()) {
      client_->send(static_cast<unsigned>(2 * i + 1), format("error forwarding port {} to pod {}: {}", ports_[i],
                                                             request_->target.name, node.error().message));
      return closed(i);
    }
    Node& one = nodes_[i];
    one.stream = std::move(*node);
    one.stream->on_data([this, i](std::string_view bytes) {
      if (over_)
        return;
      if (!bytes.empty() && !std::exchange(nodes_[i].reached, true))
        bytes.remove_prefix(1);
      if (bytes.empty())
        return;
      client_->send(static_cast<unsigned>(2 * i), bytes);
      if (client_->unsent() > kStreamHighWater)
        nodes_[i].stream->pause(true);
    });
    one.stream->on_drained([this] {
      if (!over_)
        client_->pause(false);
    });
    one.stream->on_close([this, i] {
      if (!over_ && !nodes_[i].reached)
        client_->send(static_cast<unsigned>(2 * i + 1), nobody_listens(ports_[i], request_->target.name));
      closed(i);
    });
    if (!one.early.empty())
      one.stream->write(std::exchange(one.early, {}));
    one.stream->pause(false);
  }

  void from_client(unsigned channel, std::string_view bytes) {
    if (over_ || channel % 2 != 0 || channel / 2 >= nodes_.size() || nodes_[channel / 2].over)
      return;
    Node& one = nodes_[channel / 2];
    if (!one.stream) {
      if (one.early.size() + bytes.size() > kStreamHighWater)
        return end();
      one.early.append(bytes);
      return;
    }
    one.stream->write(std::string(bytes));
    if (one.stream->unsent() > kStreamHighWater)
      client_->pause(true);
  }

  void closed(std::size_t i) {
    if (over_)
      return;
    nodes_[i].over = true;
    if (std::ranges::all_of(nodes_, &Node::over)) {
      client_->finish();
      end();
    }
  }

  void end() {
    if (std::exchange(over_, true))
      return;
    for (Node& one : nodes_)
      if (one.stream)
        one.stream->close();
    room_->end(this);
  }

  const std::shared_ptr<StreamRoom> room_;
  const Asked request_;
  const ContainerAsk ask_;
  const std::vector<std::uint16_t> ports_;
  const std::unique_ptr<ClientChannels> client_;
  std::vector<Node> nodes_;
  bool over_ = false;
};

// ?ports=80,443 and once more. Nothing: one of them is no port, there is none, or there are too many.
std::optional<std::vector<std::uint16_t>> ports_in(const HttpRequest& http) {
  std::string all = query_of(http, "ports");
  for (const auto& [key, value] : http.earlier)
    if (key == "ports")
      all = value + "," + all;
  std::vector<std::uint16_t> out;
  for (const std::string& one : split(all, ',')) {
    const auto port = parse_uint(trim(one));
    if (!port || *port == 0 || *port > UINT16_MAX || out.size() == kPortsMost)
      return std::nullopt;
    out.push_back(static_cast<std::uint16_t>(*port));
  }
  return out.empty() ? std::nullopt : std::optional(std::move(out));
}

// Whether it is one of those. It is answered then.
bool forwarded_by_channels(const Asked& request, const StreamTools& tools, const ContainerAsk& ask) {
  const HttpRequest& http = request->http();
  auto channels =
      asks_for(http, "websocket") ? web_socket_channels(http, tools.sha1, kChannels, Greets::kNot) : nullptr;
  if (!channels)
    return false;
  auto ports = ports_in(http);
  if (!ports) {
    answer_status(*request, Status::bad_request(format(
                                "query parameter \"ports\" names the ports, at most {}: ?ports=80", kPortsMost)));
    return true;
  }
  auto stream = request->visit->upgrade(channels->protocol, channels->headers);
  if (!stream)
    return true;
  const auto talk = std::make_shared<PortChannels>(tools.room, request, ask, std::move(*ports), std::move(channels));
  tools.room->keep(talk);
  talk->begin(std::move(stream));
  return true;
}

}  // namespace

void forward_ports(const Asked& request, const StreamTools& tools) {
  auto place = place_of(*request, "portforward");
  if (!place.ok())
    return answer_status(*request, place.error());
  if (tools.room->size() >= kConversationsMax)
    return answer_status(*request, Status::too_many_requests("too many connections to containers are open", 1));
  const HttpRequest& http = request->http();
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kPort;
  ask.input = true;
  ask.job = place->job;
  ask.container = place->container;
  const bool tunnel =
      asks_for(http, "websocket") && !chosen_protocol(header_of(http, "sec-websocket-protocol"), {kTunnel}).empty();
  const bool spdy =
      asks_for(http, "SPDY/3.1") && !chosen_protocol(header_of(http, "x-stream-protocol-version"), {kProtocol}).empty();
  if (!tunnel && !spdy && forwarded_by_channels(request, tools, ask))
    return;
  if (!tunnel && !spdy)
    return answer_status(*request, Status::bad_request(format("Upgrade request required: SPDY/3.1 with {}, or a "
                                                              "WebSocket with {}",
                                                              kProtocol, kTunnel)));
  std::map<std::string, std::string> headers{{"X-Stream-Protocol-Version", std::string(kProtocol)}};
  if (tunnel)
    headers = web_socket_answer(http, tools.sha1, std::string(kTunnel));
  auto client = request->visit->upgrade(tunnel ? "websocket" : "SPDY/3.1", headers);
  if (!client)
    return;
  const auto talk = std::make_shared<Forwarding>(tools.room, request, std::move(ask), tunnel);
  tools.room->keep(talk);
  talk->begin(std::move(client));
}

}  // namespace lockstep::kube
