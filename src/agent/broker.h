// Broker: the API socket of a node. Requests of local users go over the agent's link with the identity the kernel
// proved; while there is no link they wait a little. A step's input and output goes by way of the switch.
#pragma once

#include <list>
#include <memory>

#include "agent/link.h"
#include "agent/splice.h"
#include "agent/step_switch.h"
#include "ports/http.h"

namespace lockstep {

struct BrokerSettings {
  Duration wait = seconds(10);       // for a link, before a request is refused
  std::size_t waiting_max = 10'000;  // requests
};

class Broker {
 public:
  Broker(EventLoop& loop, Splices& splices, BrokerSettings settings = {});
  ~Broker();
  Broker(Broker&&) = delete;

  void request(std::shared_ptr<HttpExchange> exchange);  // the HTTP server's handler
  void use_switch(StepSwitch& steps) { switch_ = &steps; }
  void link_up(AgentLink& link);
  void link_down();  // before the link is destroyed

 private:
  struct Waiting {
    std::shared_ptr<HttpExchange> exchange;
    TimerId timer = 0;
  };
  void forward(std::shared_ptr<HttpExchange> exchange);
  void join(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller, bool direct);
  void wait_for_link(std::shared_ptr<HttpExchange> exchange);

  EventLoop& loop_;
  Splices& splices_;
  BrokerSettings settings_;
  AgentLink* link_ = nullptr;
  StepSwitch* switch_ = nullptr;  // none: every stream is spliced to the controller's
  std::list<Waiting> waiting_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // clients may leave after us
};

// "/v1/jobs" and {"id": "1 2"} -> "/v1/jobs?id=1%202".
std::string request_target(const HttpRequest& request);

}  // namespace lockstep
