#include "agent/broker.h"

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

void refuse(HttpExchange& exchange, const Error& error) {
  exchange.respond({http_status_of(error.code), "application/json", encode_error(error), {}});
}

ApiCall call_of(const HttpRequest& request) {
  ApiCall call;
  call.method = request.method;
  call.target = request_target(request);
  call.body = request.body;
  if (const auto it = request.headers.find("upgrade"); it != request.headers.end())
    call.upgrade = it->second;
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
    : loop_(loop), splices_(splices), settings_(settings) {}

Broker::~Broker() {
  for (auto& waiting : waiting_) loop_.cancel(waiting.timer);
}

void Broker::request(std::shared_ptr<HttpExchange> exchange) {
  if (link_)
    forward(std::move(exchange));
  else
    wait_for_link(std::move(exchange));
}

void Broker::wait_for_link(std::shared_ptr<HttpExchange> exchange) {
  const Error away{Errc::kUnavailable, "this node has no connection to the cluster's controller at the moment", {}};
  if (waiting_.size() >= settings_.waiting_max)
    return refuse(*exchange, away);
  const auto it = waiting_.insert(waiting_.end(), {exchange, 0});
  const auto leave = [this, it] {
    loop_.cancel(it->timer);
    const auto leaving = std::move(it->exchange);
    waiting_.erase(it);
    return leaving;
  };
  it->timer = loop_.after(settings_.wait, [leave, away] { refuse(*leave(), away); });
  exchange->on_gone([leave, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired())
      leave();
  });
}

void Broker::forward(std::shared_ptr<HttpExchange> exchange) {
  ApiCall call = call_of(exchange->request());
  const bool direct = switch_ && is_step_io(exchange->request(), call.upgrade);
  if (direct)
    call.target.append(call.target.find('?') == std::string::npos ? "?" : "&").append("direct=1");
  auto answered = [this, exchange, direct, upgrade = call.upgrade](Result<ApiReply> reply,
                                                                   std::unique_ptr<Stream> stream) {
    exchange->on_gone({});
    if (reply.ok() && stream)
      join(exchange->upgrade(upgrade), std::move(stream), direct);
    else if (reply.ok())
      exchange->respond({reply->status, std::move(reply->content_type), std::move(reply->body), {}});
    else if (exchange->request().method == "GET" && upgrade.empty())
      wait_for_link(exchange);  // harmless to ask again
    else
      refuse(*exchange, reply.error());
  };
  const std::uint64_t id = link_->call(call, std::move(answered));
  exchange->on_gone([this, id, link = link_, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && link_ == link)
      link->abandon(id);
  });
}

// client: null when it cannot be upgraded after all; dropping the controller's stream tells the controller.
void Broker::join(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller, bool direct) {
  if (!client)
    return;
  if (direct)
    switch_->serve(std::move(client), std::move(controller));
  else
    splices_.join(std::move(client), std::move(controller));
}

void Broker::link_up(AgentLink& link) {
  link_ = &link;
  for (auto& waiting : std::exchange(waiting_, {})) {
    loop_.cancel(waiting.timer);
    waiting.exchange->on_gone({});
    forward(std::move(waiting.exchange));
  }
}

void Broker::link_down() { link_ = nullptr; }

}  // namespace lockstep
