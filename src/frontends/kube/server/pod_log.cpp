#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/server/client_channels.h"
#include "frontends/kube/server/pod_streams.h"

namespace lockstep::kube {

namespace {

Answered<ContainerAsk> log_asked(const Request& request, const PodPlace& place) {
  const HttpRequest& http = request.http();
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kLogs;
  ask.job = place.job;
  ask.container = place.container;
  ask.ran_on = place.ran_on;
  ask.attempt = place.attempt;
  ask.previous = query_flag(http, "previous");
  ask.follow = query_flag(http, "follow");
  ask.times = query_flag(http, "timestamps");
  const auto refuse = [&](const char* field, const std::string& value, const char* why) {
    return Status::invalid({"", "PodLogOptions"}, request.target.name,
                           {{"FieldValueInvalid", format("Invalid value: {}: {}", value, why), field}});
  };
  if (const std::string lines = query_of(http, "tailLines"); !lines.empty()) {
    const auto number = parse_int(lines);
    if (!number || *number < 0)
      return refuse("tailLines", lines, "must be greater than or equal to 0");
    ask.tail = *number;
  }
  if (const std::string bytes = query_of(http, "limitBytes"); !bytes.empty()) {
    const auto number = parse_int(bytes);
    if (!number || *number < 1)
      return refuse("limitBytes", bytes, "must be greater than 0");
    ask.bytes_max = *number;
  }
  const std::string since = query_of(http, "sinceSeconds"), time = query_of(http, "sinceTime");
  if (!since.empty() && !time.empty())
    return refuse("sinceSeconds", since, "at most one of `sinceTime` or `sinceSeconds` may be specified");
  const auto read = request.visit->read();
  if (const User* root = read->tables.user("local", 0))
    ask.user = root->id;  // whose every pod's job is
  if (!since.empty()) {
    const auto number = parse_int(since);
    if (!number || *number < 1 || *number > INT32_MAX)
      return refuse("sinceSeconds", since, "must be greater than 0");
    ask.since = WallTime{(read->now + read->wall_offset).us - *number * 1'000'000};
  }
  if (!time.empty()) {
    const auto at = parse_timestamp(time);
    if (!at)
      return refuse("sinceTime", time, "it is no RFC 3339 time");
    ask.since = *at;
  }
  return ask;
}

// "" = there is one. Source: what `kubectl logs` shows of the real ones.
std::string why_no_log(const Request& request, const PodPlace& place) {
  const std::string name = format("container \"{}\" in pod \"{}\"", place.container, request.target.name);
  if (query_flag(request.http(), "previous"))
    return place.previous ? "" : format("previous terminated {} not found", name);
  if (place.started)
    return {};
  if (place.waits.empty())
    return name + " is terminated";
  return format("{} is waiting to start: {}", name,
                place.waits == "ErrImagePull"       ? "image can't be pulled"
                : place.waits == "ImagePullBackOff" ? "trying and failing to pull image"
                                                    : place.waits);
}

// How the client takes the log: as the body of its answer, or as messages of a WebSocket, in one of two protocols.
enum class Form : unsigned char { kBody, kBinary, kText };

// A log on its way from the node to a client, no faster than that reads.
class LogTalk final : public Conversation {
 public:
  LogTalk(std::shared_ptr<StreamRoom> room, std::unique_ptr<Stream> node, std::unique_ptr<Stream> client, Form form)
      : room_(std::move(room)), node_(std::move(node)), client_(std::move(client)), form_(form) {}

  void begin() {
    client_->on_close([this] { end(); });
    client_->on_drained([this] {
      if (!over_)
        node_->pause(false);
    });
    client_->on_data([this](std::string_view bytes) { from_client(bytes); });
    node_->on_data([this](std::string_view bytes) { to_client(bytes); });
    node_->on_close([this] {
      if (over_)
        return;
      if (form_ != Form::kBody)
        client_->write(web_socket_frame(WebSocketMessage::Kind::kClose, std::string("\x03\xe8", 2)));
      end();
    });
    node_->pause(false);
  }

 private:
  void from_client(std::string_view bytes) {
    if (over_ || form_ == Form::kBody)
      return;
    const auto read = reader_.feed(bytes, [this](const WebSocketMessage& one) {
      if (over_)
        return;
      if (one.kind == WebSocketMessage::Kind::kClose)
        end();
      else if (one.kind == WebSocketMessage::Kind::kPing)
        client_->write(web_socket_frame(WebSocketMessage::Kind::kPong, one.data));
    });
    if (!read.ok() || client_->unsent() > kUnreadMost)
      end();
  }

  void to_client(std::string_view bytes) {
    if (over_)
      return;
    switch (form_) {
      case Form::kBody: client_->write(std::string(bytes)); break;
      case Form::kBinary: client_->write(web_socket_frame(WebSocketMessage::Kind::kBinary, bytes)); break;
      case Form::kText: client_->write(web_socket_frame(WebSocketMessage::Kind::kText, base64_text(bytes))); break;
    }
    if (client_->unsent() > kStreamHighWater)
      node_->pause(true);
  }

  void end() {
    if (std::exchange(over_, true))
      return;
    client_->close();
    node_->close();
    room_->end(this);
  }

  const std::shared_ptr<StreamRoom> room_;
  const std::unique_ptr<Stream> node_, client_;
  const Form form_;
  WebSocketReader reader_;
  bool over_ = false;
};

void tell_log(const Asked& request, const StreamTools& tools, std::unique_ptr<Stream> node) {
  const HttpRequest& http = request->http();
  Form form = Form::kBody;
  std::unique_ptr<Stream> client;
  if (asks_for(http, "websocket")) {
    const std::string protocol =
        chosen_protocol(header_of(http, "sec-websocket-protocol"), {"binary.k8s.io", "base64.binary.k8s.io"});
    form = protocol.starts_with("base64") ? Form::kText : Form::kBinary;
    client = request->visit->upgrade("websocket", web_socket_answer(http, tools.sha1, protocol));
  } else {
    client = request->visit->open({200, "text/plain", "", {{"Cache-Control", "no-cache, private"}}});
  }
  if (!client)
    return;
  const auto talk = std::make_shared<LogTalk>(tools.room, std::move(node), std::move(client), form);
  tools.room->keep(talk);
  talk->begin();
}

}  // namespace

void log_of_pod(const Asked& request, const StreamTools& tools) {
  auto place = place_of(*request, "log");
  if (!place.ok())
    return answer_status(*request, place.error());
  if (const std::string none = why_no_log(*request, *place); !none.empty())
    return answer_status(*request, Status::bad_request(none));
  const auto ask = log_asked(*request, *place);
  if (!ask.ok())
    return answer_status(*request, ask.error());
  if (tools.room->size() >= kConversationsMax)
    return answer_status(*request, Status::too_many_requests("too many connections to containers are open", 1));
  request->visit->reach(*ask, [request, tools](Result<std::unique_ptr<Stream>> node) {
    if (!node.ok())
      return answer_status(*request, Status::bad_request(node.error().message));
    tell_log(request, tools, std::move(*node));
  });
}

}  // namespace lockstep::kube
