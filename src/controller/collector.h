// Collector: the actor that sees to what depends on deleted objects. What has lost all its owners is deleted in its
// turn; a foreground deletion goes on when nothing blocks it any more; orphans lose their owner; the job that was made
// for an object is cancelled with it. The rules are those of Kubernetes' garbage collector (its documentation,
// "Garbage Collection" and "Owners and Dependents").
#pragma once

#include <map>
#include <set>
#include <variant>

#include "model/records.h"
#include "ports/actor.h"

namespace lockstep {

class Collector : public Actor {
 public:
  const char* name() const override { return "collector"; }
  void restart(std::span<const Change> snapshot) override;
  void observe(std::span<const Change> changes) override;
  Turn step(Instant now, ActorBudget budget) override;
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) override;
  Instant next_timer() const override;

 private:
  using Key = std::variant<Uid, JobId>;  // an object, a job
  struct Owned {
    std::set<Key> dependents;
    std::size_t blocking = 0;  // of these, how many an owner in the foreground waits for
  };
  // How an owner stands to what names it.
  enum class Standing : unsigned char { kThere, kGoing, kForeground, kOrphans, kGone };

  static constexpr Duration kPause = millis(20);  // what was observed since then is looked at first

  void saw(const Change& change, const Ref<Object>& object);
  void saw(const Change& change, const Ref<Job>& job);
  void link(const Key& key, const Meta& meta);
  void unlink(const Key& key, const Meta& meta);
  void look_at_dependents(Uid owner);
  static Standing standing(const Object& object);
  Standing standing(Uid owner) const;
  Standing standing(Uid owner, const Object& dependent) const;
  bool shows(Uid owner, JobId job) const;  // the object stands for that job
  std::optional<Ask> decide(const Key& key) const;
  std::optional<Ask> decide(const Object& object) const;
  std::optional<Ask> decide(const Job& job) const;
  std::optional<Ask> finish(const Object& object) const;
  bool may_close_circle(const Object& object) const;

  std::map<Uid, Ref<Object>> objects_;
  std::map<JobId, Ref<Job>> jobs_;  // that have owners and have not ended
  std::map<Uid, Owned> owned_;      // by whoever is named, there or not
  std::set<Key> looks_;             // to look at
  std::map<Uid, Key> walks_;        // owners whose dependents are to be looked at, from the one named
  struct Asked {
    Key key;
    bool cancels = false;
  };
  std::map<std::uint64_t, Asked> asked_;
  std::set<Key> under_way_;    // what asked_ names
  std::set<JobId> cancelled_;  // told to end, and not told again
  std::uint64_t last_ask_ = 0;
  Instant not_before_;
  Duration pause_ = kPause;  // after the next refusal; doubled with each
  Seq seen_ = 0;
  std::size_t commands_max_ = ActorBudget{}.commands;  // under way at once, as the last step was told
};

}  // namespace lockstep
