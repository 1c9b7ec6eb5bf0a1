#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/client_channels.h"
#include "frontends/kube/server/pod_streams.h"
#include "frontends/kube/server/shown.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr unsigned kStatusChannel = 3, kResizeChannel = 4;
constexpr std::size_t kFrameHead = 5, kNodeFrameMax = 1 << 20;

std::string node_frame(ContainerChannel channel, std::string_view bytes) {
  std::string out(1, static_cast<char>(channel));
  for (int i = 3; i >= 0; --i) out += static_cast<char>(bytes.size() >> (8 * i) & 0xff);
  return out.append(bytes);
}

std::string failure_text(std::string_view word) {
  if (word.starts_with("exit "))
    return "command terminated with non-zero exit code: exit status " + std::string(word.substr(5));
  return std::string(word.starts_with("error ") ? word.substr(6) : word);
}

// How a command ended, as clients read it. word: the node's: "", "exit 3", "error …".
std::string status_text(std::string_view word) {
  json::object out{{"metadata", json::object()}};
  if (word.empty()) {
    out["status"] = "Success";
  } else if (word.starts_with("exit ")) {
    const std::string code(word.substr(5));
    out["status"] = "Failure";
    out["message"] = failure_text(word);
    out["reason"] = "NonZeroExitCode";
    out["details"] = {{"causes", json::array{json::object{{"reason", "ExitCode"}, {"message", code}}}}};
  } else {
    const std::string why = failure_text(word);
    out["status"] = "Failure";
    out["message"] = "Internal error occurred: " + why;
    out["reason"] = "InternalError";
    out["details"] = {{"causes", json::array{json::object{{"message", why}}}}};
    out["code"] = 500;
  }
  return json::serialize(out);
}

// Between a client and one container: what one says goes to the other, no faster than it is taken.
class Exec final : public Conversation {
 public:
  // attaches: how the container's own program ends is the pod's to say, and no failure of who watches it.
  Exec(std::shared_ptr<StreamRoom> room, std::shared_ptr<ClientChannels> client, std::unique_ptr<Stream> node,
       bool attaches)
      : room_(std::move(room)), client_(std::move(client)), node_(std::move(node)), attaches_(attaches) {}

  void begin(std::unique_ptr<Stream> connection) {
    node_->pause(true);  // until the client has all its channels
    node_->on_data([this](std::string_view bytes) { from_node(bytes); });
    node_->on_close([this] { node_gone(); });
    node_->on_drained([this] {
      if (!over_)
        client_->pause(false);
    });
    client_->begin(std::move(connection),
                   {.data = [this](unsigned channel, std::string_view bytes) { from_client(channel, bytes); },
                    .ended =
                        [this](unsigned channel) {
                          if (channel == 0)
                            to_node(ContainerChannel::kInput, {});
                        },
                    .ready =
                        [this] {
                          if (!over_)
                            node_->pause(false);
                        },
                    .gone =
                        [this] {
                          if (!over_)
                            node_->close();
                          end();
                        },
                    .drained =
                        [this] {
                          if (!over_)
                            node_->pause(false);
                        }});
  }

 private:
  void to_node(ContainerChannel channel, std::string_view bytes) {
    if (over_)
      return;
    node_->write(node_frame(channel, bytes));
    if (node_->unsent() > kStreamHighWater)
      client_->pause(true);
  }

  void from_client(unsigned channel, std::string_view bytes) {
    if (channel == 0)
      return to_node(ContainerChannel::kInput, bytes);
    if (channel != kResizeChannel)
      return;
    boost::system::error_code failed;
    const json::value size = json::parse(bytes, failed);
    const auto width = failed ? std::nullopt : integer_in(size, "Width");
    const auto height = failed ? std::nullopt : integer_in(size, "Height");
    if (width && height && *width > 0 && *height > 0 && *width < 65536 && *height < 65536)
      to_node(ContainerChannel::kSize, format("{} {}", *width, *height));
  }

  void from_node(std::string_view bytes) {
    if (over_)
      return;
    in_.append(bytes);
    std::size_t used = 0;
    while (in_.size() - used >= kFrameHead) {
      std::size_t length = 0;
      for (std::size_t i = 1; i < kFrameHead; ++i) length = length << 8 | static_cast<unsigned char>(in_[used + i]);
      if (length > kNodeFrameMax)
        return node_gone();
      if (in_.size() - used < kFrameHead + length)
        break;
      const auto channel = static_cast<ContainerChannel>(in_[used]);
      const std::string_view data = std::string_view(in_).substr(used + kFrameHead, length);
      used += kFrameHead + length;
      if (channel == ContainerChannel::kEnd)
        return finish(std::string(data));
      if (channel == ContainerChannel::kOutput || channel == ContainerChannel::kError)
        client_->send(channel == ContainerChannel::kOutput ? 1 : 2, data);
    }
    in_.erase(0, used);
    if (client_->unsent() > kStreamHighWater)
      node_->pause(true);
  }

  void node_gone() {
    if (!over_)
      finish("error the connection to the container's node has ended");
  }

  void finish(std::string word) {
    if (attaches_ && word.starts_with("exit "))
      word.clear();
    if (client_->told_in_status)
      client_->send(kStatusChannel, status_text(word));
    else if (!word.empty())
      client_->send(kStatusChannel, failure_text(word));
    client_->finish();
    node_->close();
    end();
  }

  void end() {
    if (!std::exchange(over_, true))
      room_->end(this);
  }

  const std::shared_ptr<StreamRoom> room_;
  const std::shared_ptr<ClientChannels> client_;
  const std::unique_ptr<Stream> node_;
  const bool attaches_;
  std::string in_;
  bool over_ = false;
};

std::vector<std::string> all_of(const HttpRequest& http, std::string_view name) {
  std::vector<std::string> out;
  for (const auto& [key, value] : http.earlier)
    if (key == name)
      out.push_back(value);
  if (const auto last = http.query.find(name); last != http.query.end())
    out.push_back(last->second);
  return out;
}

}  // namespace

Answered<PodPlace> place_of(const Request& request, std::string_view subject) {
  const auto object = find_object(request);
  if (!object)
    return Status::not_found(request.resource(), request.target.name);
  const json::object tree = shown_tree(request, *object);
  PodPlace out;
  out.container = query_of(request.http(), "container");
  const json::array& containers = containers_in(tree, "containers");
  if (out.container.empty()) {
    const std::string chosen =
        text_in(part(part(tree, "metadata"), "annotations"), "kubectl.kubernetes.io/default-container");
    if (containers.size() == 1 || subject != "log")
      out.container = !chosen.empty() && container_named(tree, chosen) ? chosen
                      : containers.empty()                             ? ""
                                                                       : text_in(containers.front(), "name");
    else {
      std::vector<std::string> names;
      for (const json::value& one : containers) names.push_back(text_in(one, "name"));
      return Status::bad_request(format("a container name must be specified for pod {}, choose one of: [{}]",
                                        request.target.name, join(names, " ")));
    }
  }
  if (!container_named(tree, out.container))
    return Status::bad_request(format("container {} is not valid for pod {}", out.container, request.target.name));
  for (const char* list : {"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"})
    for (const json::value& one : list_in(part(tree, "status"), list))
      if (text_in(one, "name") == out.container) {
        out.previous = part(part(one, "lastState"), "terminated").is_object();
        out.waits = text_in(part(part(one, "state"), "waiting"), "reason");
      }
  const auto read = request.visit->read();
  const PodRecords records = records_of_pod(read->tables, *object);
  if (!records.job)
    if (const EndedWork* ended = ended_job_of(*object); ended && subject == "log") {
      out.job = ended->what.job;
      out.ran_on = ended->ran_on.get();
      out.attempt = ended->attempt;
      out.started = !out.ran_on.empty();
      return out;
    }
  if (!records.job || text_in(spec_of(tree), "nodeName").empty())
    return Status::bad_request(format("pod {} does not have a host assigned", request.target.name));
  out.job = records.job->id;
  if (records.task)
    for (const ContainerStatus& told : records.task->containers.get())
      if (told.name == out.container)
        out.started = told.state != ContainerState::kWaiting || told.restarts > 0;
  return out;
}

void exec_in_pod(const Asked& request, const StreamTools& tools) {
  const bool attaches = request->target.subresource == "attach";
  auto place = place_of(*request, request->target.subresource);
  if (!place.ok())
    return answer_status(*request, place.error());
  if (tools.room->size() >= kConversationsMax)
    return answer_status(*request, Status::too_many_requests("too many connections to containers are open", 1));
  const HttpRequest& http = request->http();
  ContainerAsk ask;
  ask.what = attaches ? ContainerAsk::What::kAttach : ContainerAsk::What::kExec;
  ask.job = place->job;
  ask.container = place->container;
  ask.argv = all_of(http, "command");
  ask.input = query_flag(http, "stdin");
  ask.output = query_flag(http, "stdout");
  ask.error = query_flag(http, "stderr");
  ask.terminal = query_flag(http, "tty");
  if (ask.terminal)
    ask.error = false;
  if (!attaches && ask.argv.empty())
    return answer_status(*request, Status::bad_request("you must specify at least one command for the container"));
  if (!ask.input && !ask.output && !ask.error)
    return answer_status(*request, Status::bad_request("you must specify at least one of stdin, stdout, stderr"));
  const std::size_t streams = 1u + ask.input + ask.output + ask.error + ask.terminal;
  std::shared_ptr<ClientChannels> client = asks_for(http, "SPDY/3.1")    ? spdy_channels(http, streams)
                                           : asks_for(http, "websocket") ? web_socket_channels(http, tools.sha1)
                                                                         : nullptr;
  if (!client)
    return answer_status(*request, Status::bad_request("Upgrade request required: a WebSocket or SPDY/3.1, with a "
                                                       "protocol that is spoken here (v5.channel.k8s.io, "
                                                       "v4.channel.k8s.io)"));
  request->visit->reach(ask, [request, tools, client, attaches](Result<std::unique_ptr<Stream>> node) {
    if (!node.ok())
      return answer_status(*request, Status::internal(node.error().message));
    auto connection = request->visit->upgrade(client->protocol, client->headers);
    if (!connection)
      return;
    const auto talk = std::make_shared<Exec>(tools.room, client, std::move(*node), attaches);
    tools.room->keep(talk);
    talk->begin(std::move(connection));
  });
}

}  // namespace lockstep::kube
