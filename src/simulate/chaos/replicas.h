// Replicas: the actor of chaos that makes things: every "sim/Set" gets as many "sim/Replica" as its body says, each
// with a job of its own. It counts by a reading that lags, as every controller of a workload does; that it never makes
// one too many is what Reading is for.
#pragma once

#include <map>
#include <set>

#include "base/rng.h"
#include "model/records.h"
#include "ports/actor.h"

namespace lockstep::sim {

class Replicas : public Actor {
 public:
  // seed: of the names it gives; two that run at once have different ones, as on two machines.
  explicit Replicas(std::uint64_t seed) : dice_(seed) {}

  const char* name() const override { return "replicas"; }
  void restart(std::span<const Change> snapshot) override { observe(snapshot); }
  void observe(std::span<const Change> changes) override;
  Turn step(Instant now, ActorBudget budget) override;
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) override;
  Instant next_timer() const override { return looks_.empty() ? kNever : not_before_; }

 private:
  Ask make(const Object& set);
  Ask remove(const Object& set, const Object& replica) const;

  Rng dice_;
  std::map<ObjectKey, Ref<Object>> objects_;  // sets and replicas
  std::map<Uid, ObjectKey> sets_;             // by uid
  std::map<Uid, std::set<ObjectKey>> owned_;  // by the uid of their controller
  UserId user_;                               // whose jobs the replicas are; 0: nobody is known yet
  std::set<ObjectKey> looks_;                 // sets to look at
  std::map<std::uint64_t, ObjectKey> asked_;  // one at a time for each set
  std::set<ObjectKey> under_way_;
  std::uint64_t last_ask_ = 0;
  Instant not_before_;
  Seq seen_ = 0;
};

}  // namespace lockstep::sim
