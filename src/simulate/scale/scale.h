// A large cluster in one process: the real core and planner, nodes that do at once what they are told, and jobs drawn
// from a seed. For measuring what planning costs.
#pragma once

#include <memory>
#include <vector>

#include "base/rng.h"
#include "core/cluster.h"
#include "sched/planner.h"

namespace lockstep::sim {

// Of this thread alone, so that a busy machine does not count.
double cpu_seconds();

// Distinct asks of a mixed GPU cluster: parts of nodes, whole nodes, gangs of up to nodes / 16.
std::vector<Ref<JobSpec>> scale_shapes(std::size_t count, std::uint32_t nodes, std::uint32_t devices_per_node,
                                       Rng& rng);

class ScaleWorld {
 public:
  // leaf: so many nodes on a leaf, 16 leaves to a block; 0 = no topology.
  ScaleWorld(std::uint32_t nodes, std::uint32_t devices_per_node, std::uint64_t seed, std::uint32_t leaf = 0);
  void grow(std::uint32_t nodes);  // to so many
  // Accounts in two levels with a user each, limits on both and on users of the QOS, some of which bind when so many
  // devices are nearly all held; and priority by age, size and fair share. To be called before anything is submitted.
  void set_limits(std::uint64_t devices);

  // Applies a command; CHECKs that the core takes it. The planner sees the changes with the next cycle.
  Answer must(CommandBody body);
  // A spec with a priority of its own is submitted by an administrator.
  JobId submit(const Ref<JobSpec>& spec) { return must(SubmitJob{.spec = spec}).job; }
  JobId submit(const Ref<JobSpec>& spec, double& seconds);  // of processor time, in the core
  void end(JobId id);                                       // a running job, by its own will, on all its nodes
  void drain(NodeId id, bool on);
  void lose(NodeId id) { must(NodeLost{id}); }
  void back(NodeId id);  // says hello with a new boot: what ran there is over

  // A planner that has seen nothing takes the place of the old one and is shown everything with the next cycle.
  void renew_planner();

  // Seconds of processor time.
  struct Cycle {
    double plan_s = 0;   // in the planner
    double slice_s = 0;  // the longest single call of it
    double core_s = 0;   // in the core, for what was planned
    double deep_s = 0;   // in the planner afterwards, for what it does when there is nothing else to do
    std::uint64_t starts = 0, refused = 0, grants = 0;
  };
  // Shows the planner what happened and lets it plan, and the core commit, until there is nothing left to plan.
  Cycle cycle();
  // One slice only: the starts that came of it, committed. For what happens in the middle of a pass.
  std::vector<PlannedStart> slice(double& seconds);

  // Plans until a start is proposed, and commits nothing.
  PlannedStart next_start();
  // Plans until a preemption is proposed or there is nothing left to plan, commits nothing; seconds of the longest
  // call.
  std::vector<PlannedPreemption> peek(double& slice_s);

  double busy() const;                                           // part of all devices that is held
  std::uint64_t promised(const std::vector<JobId>& jobs) const;  // of these, how many have a start time
  const ClusterState& state() const { return state_; }
  const Tables& tables() const { return state_.tables(); }
  Planner& planner() { return *planner_; }

  Rng rng;
  Instant now{1'700'000'000'000'000};

 private:
  std::uint64_t commit(std::vector<PlannedStart> starts, double& seconds);
  void learn(std::vector<PlannedPacking> packings, double& seconds);
  Node facts(std::uint32_t number, std::uint32_t boot) const;

  std::uint32_t devices_per_node_ = 0, leaf_ = 0;
  ClusterState state_;
  std::unique_ptr<Planner> planner_;
  std::vector<Change> unseen_;
  std::vector<std::uint32_t> boots_;  // by node number
};

}  // namespace lockstep::sim
