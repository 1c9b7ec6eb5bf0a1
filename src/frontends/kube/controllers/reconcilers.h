// Reconcilers: the actor that runs all controllers of Kubernetes, one key at a time. What was refused is looked at
// again on the view as it is then, after a pause that doubles with each refusal. Namespaces take turns.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontends/kube/controllers/due_work.h"
#include "frontends/kube/controllers/pod_admission.h"
#include "frontends/kube/controllers/reconciler.h"

namespace lockstep::kube {

class Reconcilers : public Actor {
 public:
  explicit Reconcilers(std::vector<std::shared_ptr<const Reconciler>> all,
                       std::shared_ptr<PodAdmission> admission = nullptr)
      : all_(std::move(all)), admission_(std::move(admission)) {}

  const char* name() const override { return "kube"; }
  void restart(std::span<const Change> snapshot) override;
  void observe(std::span<const Change> changes) override;
  Turn step(Instant now, ActorBudget budget) override;
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant now) override;
  Instant next_timer() const override;

 private:
  struct Held {
    std::size_t open = 0;  // asks that are not answered
    bool refused = false;  // one of them was
    std::string why;       // the last that was not refused for being stale
    Duration pause;        // before the next look after a refusal
  };
  // Its namespace's share is used up: until then nothing new is tried.
  struct NoRoom {
    std::string why;
    Instant until;
    Duration pause;
  };
  void wake(const Change& change);
  void note_room(const Work& work, const Error& error, Instant now);
  void look_at(Work work);

  std::vector<std::shared_ptr<const Reconciler>> all_;
  std::shared_ptr<PodAdmission> admission_;
  ObjectView view_;
  DueWork due_;  // none of them waits for an answer
  std::set<std::pair<Instant, Work>> later_;
  std::map<Work, Held> held_;  // wait for answers, or were refused last
  std::map<Work, NoRoom> no_room_;
  std::map<std::uint64_t, Work> asked_;
  std::uint64_t last_ask_ = 0;
};

}  // namespace lockstep::kube
