#include "agent/broker.h"

#include "base/check.h"
#include "base/text.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

void append_escaped(std::string& out, std::string_view text, std::string_view kept) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kept.find(c) != kept.npos)
      out.push_back(c);
    else
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
}

// What is refused for want of room or of a controller may be tried again.
HttpResponse response_of(ApiReply reply) {
  HttpResponse response{reply.status, std::move(reply.content_type), std::move(reply.body), {}};
  response.headers.insert(reply.headers.begin(), reply.headers.end());
  if (reply.status == 503 || reply.status == 429)
    response.headers["Retry-After"] = "1";
  return response;
}

void refuse(HttpExchange& exchange, const Error& error) {
  exchange.respond(response_of({http_status_of(error.code), "application/json", encode_error(error)}));
}

ApiCall call_of(const HttpRequest& request) {
  ApiCall call;
  call.method = request.method;
  call.target = request_target(request);
  call.body = request.body;
  if (const auto it = request.headers.find("upgrade"); it != request.headers.end())
    call.upgrade = it->second;
  for (const std::string_view name : kForwardedHeaders)
    if (const auto it = request.headers.find(name); it != request.headers.end())
      call.headers.emplace_back(it->first, it->second);
  call.uid = request.peer.uid;
  call.gid = request.peer.gid;
  call.pid = request.peer.pid;
  return call;
}

bool is_step_io(const HttpRequest& request, std::string_view upgrade) {
  return upgrade == "lockstep-stepio/1" && request.path.starts_with("/v1/steps/") && request.path.ends_with("/io");
}

}  // namespace

std::string request_target(const HttpRequest& request) {
  std::string target;
  append_escaped(target, request.path, "/-._~,:[]");
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    target.push_back(std::exchange(separator, '&'));
    append_escaped(target, name, "-._~");
    target.push_back('=');
    append_escaped(target, value, "-._~,:");
  }
  return target;
}

Broker::Broker(EventLoop& loop, Splices& splices, BrokerSettings settings)
    : loop_(loop),
      splices_(splices),
      settings_(settings),
      calls_(std::make_shared<FairShare>(FairShare::Bounds{
          .limit = settings.calls_max, .each = settings.calls_max / 4, .reserve = settings.calls_max / 8})),
      answers_(std::make_shared<FairShare>(FairShare::Bounds{.limit = settings.answers_bytes_max,
                                                             .each = settings.answers_bytes_max / 2,
                                                             .reserve = settings.answers_bytes_max / 2})) {}

Broker::~Broker() {
  for (auto& waiting : waiting_) loop_.cancel(waiting.timer);
}

FairHold Broker::share_of(const HttpExchange& exchange, const std::shared_ptr<FairShare>& of) const {
  const std::uint32_t uid = exchange.request().peer.uid;
  return {of, std::to_string(uid), uid == 0 ? FairShare::Standing::kReserved : FairShare::Standing::kOrdinary};
}

void Broker::request(std::shared_ptr<HttpExchange> exchange) {
  auto place = std::make_shared<FairHold>(share_of(*exchange, calls_));
  if (!place->resize(1))
    return refuse(*exchange, {Errc::kUnavailable, "too many requests of yours are under way on this node", {}});
  if (link_)
    forward({std::move(exchange), std::move(place)});
  else
    wait_for_link({std::move(exchange), std::move(place)});
}

void Broker::wait_for_link(Visit visit) {
  const Error away{Errc::kUnavailable, "this node has no connection to the cluster's controller at the moment", {}};
  const std::shared_ptr<HttpExchange> exchange = visit.exchange;
  const auto it = waiting_.insert(waiting_.end(), {std::move(visit), 0});
  const auto leave = [this, it] {
    loop_.cancel(it->timer);
    const auto leaving = std::move(it->visit.exchange);
    waiting_.erase(it);
    return leaving;
  };
  it->timer = loop_.after(settings_.wait, [leave, away] { refuse(*leave(), away); });
  exchange->on_gone([leave, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired())
      leave();
  });
}

void Broker::forward(Visit visit) {
  CHECK(link_);
  CHECK(visit.exchange);
  CHECK(visit.place);
  const std::shared_ptr<HttpExchange> exchange = visit.exchange;
  ApiCall call = call_of(exchange->request());
  if (!call.upgrade.empty() && call.body.size() > kApiInlineMax)
    return refuse(*exchange, invalid(format("a request for an upgrade has at most {} bytes of body", kApiInlineMax)));
  const bool direct = switch_ && is_step_io(exchange->request(), call.upgrade);
  if (direct)
    call.target.append(call.target.find('?') == std::string::npos ? "?" : "&").append("direct=1");
  const bool image = images_ && asks_for_image(exchange->request(), call.upgrade);
  if (image)
    call.upgrade.clear();  // the controller says where it is, and carries nothing of it
  // A long answer is somebody's memory here until it is handed on.
  const auto collected = std::make_shared<FairHold>(share_of(*exchange, answers_));
  auto answered = [this, visit, collected, direct, image, upgrade = call.upgrade](Result<ApiReply> reply,
                                                                                  std::unique_ptr<Stream> stream) {
    HttpExchange& asked = *visit.exchange;
    asked.on_gone({});
    if (image && reply.ok() && !stream && reply->status == 200)
      images_->join(visit.exchange, reply->body);
    else if (reply.ok() && stream && reply->stream)
      join(asked.stream(response_of(std::move(*reply))), std::move(stream), false);
    else if (reply.ok() && stream)
      join(asked.upgrade(upgrade), std::move(stream), direct);
    else if (reply.ok())
      asked.respond(response_of(std::move(*reply)));
    else if (asked.request().method == "GET" && upgrade.empty() && reply.error().code == Errc::kUnavailable)
      wait_for_link(visit);  // harmless to ask again
    else
      refuse(asked, reply.error());
  };
  const std::uint64_t id = link_->call(std::move(call), std::move(answered),
                                       [collected](std::size_t bytes) { return collected->resize(bytes); });
  exchange->on_gone([this, id, link = link_, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && link_ == link)
      link->abandon(id);
  });
}

// client: null when it cannot be upgraded after all; dropping the controller's stream tells the controller.
void Broker::join(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller, bool direct) {
  if (!client)
    return;
  CHECK(controller && (switch_ || !direct));
  if (direct)
    switch_->serve(std::move(client), std::move(controller));
  else
    splices_.join(std::move(client), std::move(controller));
}

void Broker::link_up(AgentLink& link) {
  CHECK(!link_ || link_ == &link, "a connection was not taken away before the next one");
  link_ = &link;
  for (std::size_t left = waiting_.size(); left > 0 && !waiting_.empty(); --left) {
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    loop_.cancel(waiting.timer);
    waiting.visit.exchange->on_gone({});
    forward(std::move(waiting.visit));
  }
}

void Broker::link_down() { link_ = nullptr; }

}  // namespace lockstep
