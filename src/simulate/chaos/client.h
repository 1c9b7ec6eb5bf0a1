// ChaosClient: users and administrators. They submit, cancel, hold, drain and ask at random, remember what they were
// answered, and see their interactive work through. At the end they undo what keeps jobs waiting.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "model/command.h"
#include "simulate/chaos/admin.h"
#include "simulate/chaos/fabric.h"
#include "simulate/chaos/health.h"

namespace lockstep::sim {

struct World;

class ChaosClient {
 public:
  explicit ChaosClient(World& world);

  void prepare();  // users, the partition, QOS that preempt each other, what ChaosAdmin has; repeated until answered
  bool prepared() const { return prepared_ == kSteps && administered_ < 0; }
  void start();  // commands follow each other until all are sent
  bool done() const { return sent_ >= target_; }
  std::uint64_t sent() const { return sent_; }

  // Releases, resumes and cancels whatever would keep the cluster from coming to rest.
  void settle();
  bool at_rest() const;
  std::string unrest() const;  // what is not at rest, in words

 private:
  void next();
  bool one();
  bool submit();
  bool cancel();
  bool hold_or_release();
  bool requeue();
  bool drain();
  bool update();
  bool ask_history();
  bool signal();
  bool checkpoint();
  bool suspend_or_resume();
  bool administer();
  Ref<JobSpec> make_spec();
  void settle_job(JobId id, const Job& job);
  void ask_rarely(Placement& group);
  void attend(JobId job, int steps_left, std::int32_t code);
  void create_step(JobId job);
  JobId some_job(bool pending_only);
  bool send(Command command, std::function<void(const Answer&)> on_ok = nullptr);
  Caller owner_of(JobId job) const;

  World& world_;
  ChaosAdmin admin_;
  ChaosFabric fabric_;
  ChaosHealth health_;
  Rng rare_;  // of what few ask for: everything else stays what it was
  double rarely_;
  static constexpr int kSteps = 7;
  int prepared_ = 0;
  int administered_ = 0;  // step of its setup; -1: done
  std::uint64_t sent_ = 0, target_ = 0, serial_ = 0;
  std::vector<JobId> known_;  // the latest ones
  std::set<JobId> attended_;  // interactive ones
  std::set<JobId> requeues_asked_;
  std::vector<UserId> users_;
};

}  // namespace lockstep::sim
