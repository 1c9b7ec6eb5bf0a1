// For tests of questions: a cluster whose running jobs were started by the real planner.
#pragma once

#include <utility>

#include "core/testing.h"
#include "foresight/cluster_copy.h"
#include "sched/planner.h"

namespace lockstep {

struct PlannedWorld {
  explicit PlannedWorld(std::uint32_t nodes) : world(nodes) {}

  ClusterCopy::Clock clock() const { return {world.now, Duration{}}; }
  JobId submit(JobSpec spec, Duration limit) {
    spec.time_limit = limit;
    return world.submit(std::move(spec));
  }
  // Plans and commits in the cluster itself.
  void plan() {
    Planner planner;
    planner.observe(world.state.tables().snapshot());
    for (int i = 0; i < 1000 && !planner.idle(); ++i) {
      PlanChunk chunk = planner.plan(world.now, {});
      if (!chunk.empty()) {
        auto outcome = world.run(ApplyPlan{std::move(chunk)});
        planner.observe(outcome.value().changes);
        world.obey();
      }
      planner.settled();
    }
  }

  World world;
};

}  // namespace lockstep
