#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

constexpr Instant kStart{1'000'000'000'000'000};

}  // namespace

// Every tenth seed has hooks on its nodes. Every tenth seed knows no other trouble than pauses, with the settings of
// production that make them harmless.
ChaosSettings World::settled(ChaosSettings s) {
  s.hooks = s.seed % 10 == 7;
  if (s.seed % 10 != 3)
    return s;
  s.only_pauses = true;
  s.fence_after = minutes(15);
  s.fence_silence = minutes(12);
  return s;
}

World::World(const ChaosSettings& s)
    : settings(settled(s)),
      rng(s.seed),
      timeline(kStart),
      processes(verdict),
      records(verdict, processes,
              {.limit_slack = settings.fence_after + minutes(4) + kPauseMax, .no_node_fails = settings.only_pauses}),
      bounds(verdict, kRequeueDelay),
      topology(verdict),
      health(verdict),
      clients(verdict),
      objects(verdict),
      history(verdict, log),
      network(timeline, rng.fork()),
      controller(*this),
      hostile(*this),
      object_client(*this) {
  verdict.origin = kStart;
  verdict.noting = s.noting;
  log.on_refused = [this](const Error& why) {
    verdict.fail("the log was asked for what no log takes: " + why.message);
  };
  for (std::size_t i = 0; i < s.nodes; ++i) nodes.push_back(std::make_unique<NodeHost>(*this, i, i % 3 == 0));
  network.on_connected = [this](LinkId link, std::size_t node) { controller.link_connected(link, node); };
  network.on_up = [this](LinkId link, const FromAgent& message) { controller.received(link, message); };
  network.on_controller_closed = [this](LinkId link) { controller.link_closed(link); };
  network.on_down = [this](std::size_t node, LinkId link, const ToAgent& message) {
    nodes[node]->received(link, message);
  };
  network.on_agent_closed = [this](std::size_t node, LinkId link) { nodes[node]->link_closed(link); };
}

}  // namespace lockstep::sim
