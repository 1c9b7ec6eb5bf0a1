#include "simulate/chaos/health.h"

#include "model/job.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

ChaosHealth::ChaosHealth(World& world)
    : world_(world), rng_(world.settings.seed ^ 0x6865'616c'7468), there_(there(world.settings.seed)) {}

HealthCheck ChaosHealth::new_check() {
  HealthCheck check;
  check.meta.name = rng_.chance(0.5) ? "quick" : "long";
  check.user = rng_.chance(0.9) ? "user0" : "stranger";
  const std::int64_t run_ms = check.meta.name == "quick" ? rng_.between(20, 3000) : rng_.between(10'000, 90'000);
  check.script = format("#!sim run={} exit={}\n", run_ms, rng_.chance(0.4) ? rng_.between(1, 99) : 0);
  check.every = seconds(rng_.between(10, 60));
  check.time_limit = seconds(rng_.between(5, 60));
  check.gpus = rng_.chance(0.5);
  check.on_failure = rng_.chance(0.7) ? OnUnhealthy::kDrain : OnUnhealthy::kTell;
  if (rng_.chance(0.2))
    check.node_class = "small";
  if (rng_.chance(0.5)) {
    check.nodes = {"ALL"};
  } else {
    for (std::size_t i = 1; i <= world_.nodes.size(); ++i)
      if (rng_.chance(0.6) || i == 1)
        check.nodes.push_back(format("n{}", i));
  }
  return check;
}

std::optional<CommandBody> ChaosHealth::change() {
  if (!there_ || !rng_.chance(0.03))
    return std::nullopt;
  const Tables& tables = world_.controller.state().tables();
  if (rng_.chance(0.2))
    for (const auto& [id, job] : tables.jobs)
      if (!job->spec->health_check.empty() && !is_final(job->state))
        return CancelJob{.target = {.job = id}};
  if (rng_.chance(0.15) && !tables.health_checks.empty())
    return RemoveHealthCheck{tables.health_checks.begin()->first};
  return PutHealthCheck{new_check()};
}

std::optional<CommandBody> ChaosHealth::settle() const {
  const auto& checks = world_.controller.state().tables().health_checks;
  if (checks.empty())
    return std::nullopt;
  return RemoveHealthCheck{checks.begin()->first};
}

}  // namespace lockstep::sim
