// Broker: the API socket of a node. Requests of local users go over the agent's link with the identity the kernel
// proved; while there is no link they wait a little. A step's input and output goes by way of the switch.
#pragma once

#include <list>
#include <memory>

#include "agent/image_relay.h"
#include "agent/link.h"
#include "agent/splice.h"
#include "agent/step_switch.h"
#include "base/fair_share.h"
#include "ports/http.h"

namespace lockstep {

struct BrokerSettings {
  Duration wait = seconds(10);                 // for a link, before a request is refused
  std::size_t calls_max = 16'000;              // requests under way; a user gets a quarter, root what is left and more
  std::size_t answers_bytes_max = 256u << 20;  // long answers being collected; a user gets half
};

class Broker {
 public:
  Broker(EventLoop& loop, Splices& splices, BrokerSettings settings = {});
  ~Broker();
  Broker(Broker&&) = delete;

  void request(std::shared_ptr<HttpExchange> exchange);  // the HTTP server's handler
  void use_switch(StepSwitch& steps) { switch_ = &steps; }
  void use_images(ImageRelay& images) { images_ = &images; }
  void link_up(AgentLink& link);
  void link_down();  // before the link is destroyed

 private:
  // A request under way, and what counts it against its user.
  struct Visit {
    std::shared_ptr<HttpExchange> exchange;
    std::shared_ptr<FairHold> place;
  };
  struct Waiting {
    Visit visit;
    TimerId timer = 0;
  };
  void forward(Visit visit);
  FairHold share_of(const HttpExchange& exchange, const std::shared_ptr<FairShare>& of) const;
  void join(std::unique_ptr<Stream> client, std::unique_ptr<Stream> controller, bool direct);
  void wait_for_link(Visit visit);

  EventLoop& loop_;
  Splices& splices_;
  BrokerSettings settings_;
  AgentLink* link_ = nullptr;
  StepSwitch* switch_ = nullptr;  // none: every stream is spliced to the controller's
  ImageRelay* images_ = nullptr;  // none: images come from their registries
  std::list<Waiting> waiting_;
  std::shared_ptr<FairShare> calls_, answers_;             // by user; shared with calls that end after us
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // clients may leave after us
};

// "/v1/jobs" and {"id": "1 2"} -> "/v1/jobs?id=1%202".
std::string request_target(const HttpRequest& request);

}  // namespace lockstep
