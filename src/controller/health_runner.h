// HealthRunner: the actor that keeps the findings of health checks (model/health.h) fresh. For each check and each node
// that is idle and due it asks the core to start a run, those that were not looked at for longest first. It sees to
// what is left of checks that are gone, too: their findings, and runs under way.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "model/allocation.h"
#include "model/job.h"
#include "model/node.h"
#include "ports/actor.h"

namespace lockstep {

class HealthRunner : public Actor {
 public:
  const char* name() const override { return "health checks"; }
  void restart(std::span<const Change> snapshot) override;
  void observe(std::span<const Change> changes) override;
  Turn step(Instant now, ActorBudget budget) override;
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) override;
  Instant next_timer() const override;

 private:
  using Pair = std::pair<NodeId, std::string>;             // a node and a check
  using Entry = std::tuple<Instant, NodeId, std::string>;  // not before this
  struct Refused {
    Instant until;
    Duration pause;
  };
  struct Asked {
    Pair pair;
    JobId cancels;  // 0: it asks for a run
  };

  static constexpr Duration kPause = seconds(1), kPauseMost = minutes(5);  // after a refusal, doubled with each

  void saw(const Ref<HealthCheck>& check, bool removed);
  void saw(const Ref<Node>& node, bool removed);
  void saw(const Ref<Job>& job, bool removed);
  void occupy(const Allocation& allocation, int times);
  void note_run(const Job& job, bool ended);
  void refresh(NodeId id);
  void forget_entries(NodeId id);
  bool has_slot() const;
  void ask_for(const Pair& pair, Turn& turn);
  void enter(std::set<Entry>& among, NodeId node, const std::string& check, Instant due);
  void ask_for_due(std::set<Entry>& among, Instant now, ActorBudget budget, Turn& turn);
  void cancel_orphans(Instant now, ActorBudget budget, Turn& turn);

  std::map<std::string, Ref<HealthCheck>, std::less<>> checks_;
  std::map<NodeId, Ref<Node>> nodes_;
  std::map<JobId, Ref<Allocation>> allocations_;
  std::map<NodeId, int> busy_;                                // grants there; none zero
  std::map<JobId, std::string> runs_;                         // of which check, as long as they have not ended
  std::set<JobId> orphans_;                                   // runs of checks that are gone, not told to end yet
  Instant orphans_at_;                                        // not before this
  std::set<NodeId> stale_;                                    // whose entries are to be worked out anew
  std::set<Entry> due_;                                       // runs
  std::set<Entry> leftovers_;                                 // findings that nobody asks for any more
  std::map<NodeId, std::map<std::string, Instant>> entries_;  // what stands in these two
  std::map<Pair, Refused> refused_;
  std::map<std::uint64_t, Asked> asked_;
  std::set<NodeId> under_way_;  // nodes that asked_ names
  std::size_t runs_asked_ = 0;  // of asked_, those for runs
  std::uint64_t last_ask_ = 0;
};

}  // namespace lockstep
