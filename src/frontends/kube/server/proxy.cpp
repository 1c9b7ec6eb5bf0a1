#include "frontends/kube/server/proxy.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/server/http_reply.h"
#include "frontends/kube/server/proxy_links.h"
#include "frontends/kube/server/shown_token.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kWholeMax = 1 << 20;  // of an answer that is sent in one piece, or whose links are changed
constexpr std::string_view kOwnHeaders[] = {
    "connection",        "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",    "content-length"};
constexpr int kSwitchingProtocols = 101;

bool is_own(std::string_view header) { return std::ranges::find(kOwnHeaders, header) != std::end(kOwnHeaders); }

// --- where ---

struct Place {
  JobId job;
  std::uint16_t port = 80;
  std::string address;  // as the server is called
};

Status unreachable(std::string why) { return Status::unavailable(std::move(why)); }

Answered<Place> place_in_pod(const Tables& tables, const std::string& ns, const std::string& name, std::int64_t port) {
  const auto pod = tables.objects.find({std::string(kPods), ns, name});
  if (pod == tables.objects.end())
    return Status::not_found({"", "pods"}, name);
  const PodRecords records = records_of_pod(tables, *pod->second);
  if (!records.job || !records.task || records.task->state != TaskState::kRunning)
    return unreachable(format("address not allowed: pod {} has none yet", name));
  Place out{records.job->id, static_cast<std::uint16_t>(port), {}};
  out.address = format("{}:{}", records.task->address.get(), port);
  return out;
}

// The number that a pod's path names, or the first port that the pod has.
std::int64_t port_of_pod(const json::object& pod, const std::string& said) {
  if (const auto number = parse_uint(said))
    return static_cast<std::int64_t>(std::min<std::uint64_t>(*number, UINT16_MAX + 1));
  for (const json::value& container : containers_in(pod, "containers"))
    for (const json::value& one : list_in(container, "ports"))
      if (said.empty() || text_in(one, "name") == said)
        return integer_in(one, "containerPort").value_or(80);
  return said.empty() ? 80 : 0;
}

Answered<Place> pod_place(const Tables& tables, const std::string& ns, const ProxyName& to) {
  const auto pod = tables.objects.find({std::string(kPods), ns, to.name});
  if (pod == tables.objects.end())
    return Status::not_found({"", "pods"}, to.name);
  const json::value body = parse_own(pod->second->body.get());
  const std::int64_t port = port_of_pod(body.as_object(), to.port);
  if (port < 1 || port > UINT16_MAX)
    return Status::bad_request(format("invalid port \"{}\" of pod {}", to.port, to.name));
  return place_in_pod(tables, ns, to.name, port);
}

// Endpoints that are ready, of the port that the service's path names.
Answered<Place> service_place(const Tables& tables, const std::string& ns, const ProxyName& to, std::size_t turn) {
  const auto service = tables.objects.find({"services", ns, to.name});
  if (service == tables.objects.end())
    return Status::not_found({"", "services"}, to.name);
  std::string port_name = to.port;
  if (const auto number = parse_int(to.port)) {
    bool found = false;
    const json::value body = parse_own(service->second->body.get());
    for (const json::value& one : list_in(part(body, "spec"), "ports"))
      if (integer_in(one, "port") == *number && !std::exchange(found, true))
        port_name = text_in(one, "name");
    if (!found)
      return unreachable(format("no service port {} found for service \"{}\"", to.port, to.name));
  }
  struct Endpoint {
    std::string ns, pod;
    std::int64_t port = 0;
  };
  std::vector<Endpoint> all;
  const std::string type = "endpointslices.discovery.k8s.io";
  for (auto at = tables.objects.lower_bound({type, ns, ""});
       at != tables.objects.end() && std::get<0>(at->first) == type && std::get<1>(at->first) == ns; ++at) {
    const Object& slice = *at->second;
    if (!slice.meta.extra || std::ranges::none_of(slice.meta.extra->labels, [&](const auto& label) {
          return label.first == "kubernetes.io/service-name" && label.second == to.name;
        }))
      continue;
    const json::value body = parse_own(slice.body.get());
    for (const json::value& port : list_in(body, "ports"))
      for (const json::value& one : list_in(body, "endpoints")) {
        const json::value &ready = part(part(one, "conditions"), "ready"), &pod = part(one, "targetRef");
        if (text_in(port, "name") == port_name && (!ready.is_bool() || ready.get_bool()) &&
            text_in(pod, "kind") == "Pod")
          all.push_back({ns, text_in(pod, "name"), integer_in(port, "port").value_or(0)});
      }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Endpoint& one = all[(turn + i) % all.size()];
    if (one.port < 1 || one.port > UINT16_MAX)
      continue;
    if (auto place = place_in_pod(tables, one.ns, one.pod, one.port); place.ok())
      return place;
  }
  return unreachable(format("no endpoints available for service \"{}\"", to.name));
}

// --- the request as it goes on ---

std::string in_url(std::string_view text, std::string_view also) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != kPlain.npos || also.find(c) != also.npos)
      out += c;
    else
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out;
}

std::string query_text(const HttpRequest& http) {
  std::string out;
  const auto add = [&](const std::string& name, const std::string& value) {
    out += (out.empty() ? "?" : "&") + in_url(name, "") + (value.empty() ? "" : "=" + in_url(value, ",:/"));
  };
  for (const auto& [name, value] : http.earlier) add(name, value);
  for (const auto& [name, value] : http.query) add(name, value);
  return out;
}

// What stands behind "/proxy" of the path; "" = nothing, not even a slash.
std::string path_behind(const Request& request) {
  const std::string& path = request.http().path;
  const std::string begin = format("/{}/proxy", request.target.name);
  const std::size_t at = path.find(begin);
  return at == path.npos ? std::string() : path.substr(at + begin.size());
}

std::string request_text(const Request& request, const ProxyPlace& place, const std::string& path, bool upgrades) {
  const HttpRequest& http = request.http();
  constexpr std::string_view kInPath = "/:@!$&'()*+,;=";
  std::string host = header_of(http, "host");
  std::string out = format("{} {}{} HTTP/1.1\r\nHost: {}\r\n", http.method, in_url(path, kInPath), query_text(http),
                           host.empty() ? place.server : host);
  for (const auto& [name, value] : http.headers)
    // The proof of who the client is is ours alone; a page is asked for as it can be read.
    if (!is_own(name) && name != "host" && name != "authorization" && name != "accept-encoding" && name != "expect" &&
        !name.starts_with("x-forwarded-") && !name.starts_with("impersonate-") && name != kProtocolsHeader &&
        value.find_first_of("\r\n") == value.npos)
      out += format("{}: {}\r\n", name, value);
  if (const std::string protocols = offered_protocols(http);
      !protocols.empty() && protocols.find_first_of("\r\n") == protocols.npos)
    out += format("{}: {}\r\n", kProtocolsHeader, protocols);
  out += format("x-forwarded-uri: {}\r\nx-forwarded-host: {}\r\nx-forwarded-proto: https\r\n",
                in_url(place.prefix + path, kInPath), host);
  if (!http.peer.address.empty())
    out += format("x-forwarded-for: {}\r\n", http.peer.address);
  if (!http.body.empty() || http.method == "POST" || http.method == "PUT" || http.method == "PATCH")
    out += format("content-length: {}\r\n", http.body.size());
  out += upgrades ? format("connection: Upgrade\r\nupgrade: {}\r\n", header_of(http, "upgrade"))
                  : std::string("connection: close\r\n");
  return out + "\r\n" + http.body;
}

// --- between both ---

class ProxyTalk final : public Conversation, public std::enable_shared_from_this<ProxyTalk> {
 public:
  ProxyTalk(Asked request, std::shared_ptr<StreamRoom> room, std::unique_ptr<Stream> server, ProxyPlace place)
      : request_(std::move(request)), room_(std::move(room)), server_(std::move(server)), place_(std::move(place)) {}

  void begin(std::string text) {
    server_->on_data([this](std::string_view bytes) {
      const auto alive = shared_from_this();
      if (!over_ && !reader_.feed(bytes).ok())
        fail("its answer is none of HTTP/1.1");
    });
    server_->on_close([this] {
      const auto alive = shared_from_this();
      if (!over_ && !reader_.closed().ok())
        fail(reader_.has_head() ? "it ended in the middle of its answer" : "connect: connection refused");
    });
    server_->on_drained([this] {
      if (client_)
        client_->pause(false);
    });
    server_->write(std::move(text));
    server_->pause(false);
  }

 private:
  void head(const HttpReplyReader::Head& head) {
    answer_.status = head.status;
    answer_.content_type = head.value("content-type");
    for (const auto& [name, value] : head.headers)
      if (!is_own(name) && name != "content-type")
        answer_.headers[name] = name == "location" ? proxied_link(value, place_) : value;
    const std::string type = lower(std::string(trim(answer_.content_type.substr(0, answer_.content_type.find(';')))));
    is_page_ = type == "text/html" && head.value("content-encoding").empty() && head.value("location").empty();
    if (head.status == kSwitchingProtocols)
      return switch_over(head.value("upgrade"));
    const auto length = parse_uint(head.value("content-length"));
    whole_ = is_page_ || request_->http().method == "HEAD" || (length && *length <= kWholeMax);
    if (!whole_)
      open();
  }

  void open() {
    client_ = request_->visit->open(answer_);
    if (!client_)
      return end();
    listen();
  }

  void switch_over(const std::string& protocol) {
    std::map<std::string, std::string> headers;
    for (const auto& [name, value] : answer_.headers) headers[name] = value;
    client_ = request_->visit->upgrade(protocol, headers);
    if (!client_)
      return end();
    listen();
    client_->on_data([this](std::string_view bytes) {
      if (over_)
        return;
      server_->write(std::string(bytes));
      if (server_->unsent() > kStreamHighWater)
        client_->pause(true);
    });
    client_->pause(false);
  }

  void listen() {
    client_->on_close([this] {
      const auto alive = shared_from_this();
      end();
    });
    client_->on_drained([this] {
      if (!over_)
        server_->pause(false);
    });
  }

  void body(std::string_view bytes) {
    if (over_)
      return;
    if (client_) {
      client_->write(std::string(bytes));
      if (client_->unsent() > kStreamHighWater)
        server_->pause(true);
      return;
    }
    answer_.body.append(bytes);
    if (answer_.body.size() <= kWholeMax)
      return;
    // A page that is too long for that is sent as it is.
    const std::string sofar = std::exchange(answer_.body, {});
    open();
    if (!over_)
      body(sofar);
  }

  void finish() {
    if (over_)
      return;
    if (!client_) {
      if (is_page_)
        answer_.body = proxied_page(answer_.body, place_);
      request_->visit->answer(std::move(answer_));
    }
    end();
  }

  void fail(const std::string& why) {
    if (over_)
      return;
    if (!client_)
      answer_status(*request_, unreachable(format("error trying to reach service: {}: {}", place_.server, why)));
    else
      client_->cut();
    end();
  }

  void end() {
    if (std::exchange(over_, true))
      return;
    if (client_)
      client_->close();
    server_->close();
    room_->end(this);
  }

  const Asked request_;
  const std::shared_ptr<StreamRoom> room_;
  const std::unique_ptr<Stream> server_;
  const ProxyPlace place_;
  std::unique_ptr<Stream> client_;
  HttpResponse answer_;
  bool whole_ = true, is_page_ = false, over_ = false;
  HttpReplyReader reader_{{.head = [this](const HttpReplyReader::Head& one) { head(one); },
                           .body = [this](std::string_view bytes) { body(bytes); },
                           .end = [this] { finish(); }},
                          request_->http().method == "HEAD"};
};

// As a node's agent lists them.
void answer_pods_of(const Request& request, const Node& node, bool running) {
  const auto read = request.visit->read();
  json::array items;
  const std::string type(kPods);
  for (auto at = read->tables.objects.lower_bound({type, "", ""});
       at != read->tables.objects.end() && std::get<0>(at->first) == type; ++at) {
    const PodRecords records = records_of_pod(read->tables, *at->second);
    if (!records.node || records.node->id != node.id || records.job->state == JobState::kPending)
      continue;
    json::object pod = pod_as_shown(read->tables, *at->second);
    if (!running || text_in(part(pod, "status"), "phase") == "Running")
      items.push_back(std::move(pod));
  }
  request.visit->answer(
      {200,
       std::string(kJsonType),
       json::serialize(json::object{
           {"kind", "PodList"}, {"apiVersion", "v1"}, {"metadata", json::object()}, {"items", std::move(items)}}),
       {}});
}

void answer_for_node(const Request& request, const std::string& path) {
  const auto read = request.visit->read();
  const std::string name = request.target.name.substr(0, request.target.name.find(':'));
  const Node* node = read->tables.node(std::string_view(name));
  if (!node)
    return answer_status(request, Status::not_found({"", "nodes"}, name));
  if (path.starts_with("/pods") || path.starts_with("/runningpods"))
    if (const std::string_view what = std::string_view(path).substr(0, path.find_last_not_of('/') + 1);
        what == "/pods" || what == "/runningpods")
      return answer_pods_of(request, *node, what != "/pods");
  if (path != "/healthz")
    return answer_status(request, unreachable(format("nodes here answer /healthz, /pods and /runningpods/ alone: what "
                                                     "else a node agent says of {} is in its Node object and in "
                                                     "metrics.k8s.io",
                                                     name)));
  if (node->link != NodeLink::kUp)
    return answer_status(request, unreachable(format("node {} is not connected", name)));
  request.visit->answer({200, "text/plain; charset=utf-8", "ok", {}});
}

}  // namespace

std::optional<ProxyName> parse_proxy_name(std::string_view text) {
  const auto parts = split(text, ':');
  ProxyName out;
  if (parts.size() == 1)
    out.name = parts[0];
  else if (parts.size() == 2)
    out = {"", parts[0], parts[1]};
  else if (parts.size() == 3 && (parts[0].empty() || parts[0] == "http" || parts[0] == "https"))
    out = {parts[0], parts[1], parts[2]};
  return out.name.empty() ? std::nullopt : std::optional(std::move(out));
}

bool is_proxy(const Request& request) {
  const std::string& type = request.kind->type;
  return request.target.subresource == "proxy" && (type == "pods" || type == "services" || type == "nodes");
}

void proxy_request(const Asked& request, const StreamTools& tools) {
  const std::string path = path_behind(*request);
  const std::string& method = request->http().method;
  const bool upgrades = !header_of(request->http(), "upgrade").empty();
  if (path.empty() && !upgrades && (method == "GET" || method == "HEAD"))
    return request->visit->answer({301,
                                   "text/plain; charset=utf-8",
                                   "",
                                   {{"Location", request->http().path + "/" + query_text(request->http())}}});
  if (request->kind->type == "nodes")
    return answer_for_node(*request, path);
  const auto to = parse_proxy_name(request->target.name);
  if (!to)
    return answer_status(
        *request, Status::bad_request(format("invalid {} request \"{}\"",
                                             request->kind->type == "pods" ? "pod" : "service", request->target.name)));
  const auto read = request->visit->read();
  const auto place = request->kind->type == "pods"
                         ? pod_place(read->tables, request->target.ns, *to)
                         : service_place(read->tables, request->target.ns, *to, static_cast<std::size_t>(read->now.us));
  if (!place.ok())
    return answer_status(*request, place.error());
  if (tools.room->size() >= kConversationsMax)
    return answer_status(*request, Status::too_many_requests("too many connections to containers are open", 1));
  const std::string& whole = request->http().path;
  ProxyPlace as{whole.substr(0, whole.size() - path.size()), header_of(request->http(), "host"), place->address};
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kPort;
  ask.job = place->job;
  ask.port = place->port;
  std::string text = request_text(*request, as, path.empty() ? "/" : path, upgrades);
  request->visit->reach(ask, [request, tools, as, secure = to->scheme == "https",
                              text = std::move(text)](Result<std::unique_ptr<Stream>> server) mutable {
    if (!server.ok())
      return answer_status(*request, unreachable("error trying to reach service: " + server.error().message));
    if (secure && !tools.over_tls)
      return answer_status(*request, unreachable("error trying to reach service: no TLS is spoken here"));
    auto stream = secure ? tools.over_tls(std::move(*server)) : std::move(*server);
    if (!stream)
      return answer_status(*request, unreachable("error trying to reach service: no memory for a TLS connection"));
    const auto talk = std::make_shared<ProxyTalk>(request, tools.room, std::move(stream), std::move(as));
    tools.room->keep(talk);
    talk->begin(std::move(text));
  });
}

}  // namespace lockstep::kube
