// Ledger: what jobs use and how many there are, by everything that bounds them: accounts with those above them,
// associations, QOS (a job's own and that of its partition), QOS by user and by account, licences, quotas. Both the
// core and the planner keep one and bring it forward with the same changes; it follows from the records alone.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "model/directory.h"
#include "rules/node_tally.h"
#include "rules/quota.h"

namespace lockstep {

struct Use {
  std::int64_t jobs = 0;       // have an allocation
  std::int64_t submitted = 0;  // those and waiting ones; array elements one by one
  Tres tres;                   // in use
  Tres end_minutes;            // Σ amount × the minute (of cluster time) in which its time limit strikes
  friend bool operator==(const Use&, const Use&) = default;
};

// What a start takes, planned or done.
struct Claim {
  const JobSpec* spec = nullptr;
  std::string_view partition;
  const Tres* tres = nullptr;
  Instant limit_end;  // kNever: counted as a year from `granted`
  Instant granted;
  const std::vector<Grant>* grants = nullptr;  // on which nodes
};

class Ledger {
 public:
  // One job has changed; null = is not there. Swapped, it is taken back. Costs nothing to speak of when neither its
  // number of elements nor what it uses is different.
  void index(const Job* before, const Job* after);
  // An account has changed. When its place in the tree or its quota did, the sums are made again.
  // True, as with the next three: some jobs count for others than before. Whoever keeps the ledger forgets the jobs and
  // indexes each again.
  bool index(const Account* before, const Account* after);
  bool index(const Association* before, const Association* after);
  bool index(const Qos* before, const Qos* after);
  bool index(const Partition* before, const Partition* after);
  void forget_jobs();
  void clear();

  // A start that is proposed and not committed yet counts as taken (times = 1) until it is answered (-1).
  void count(const Claim& claim, std::int64_t times);

  const Use& of_account(std::string_view name) const;  // with the accounts below
  const Use& of_qos(std::string_view name) const;
  const Use& of_qos_user(const std::string& qos, UserId user) const;
  const Use& of_qos_account(const std::string& qos, const std::string& account) const;  // without those below
  // Of a user's association; partition "": of all partitions in which the user has none of its own.
  Use of_association(const Directory& directory, const std::string& account, UserId user,
                     const std::string& partition) const;
  // On which nodes jobs of the holder run; nullopt: not kept, as nothing bounds their number.
  std::optional<NodesInUse> nodes_of_account(const std::string& name) const;
  std::optional<NodesInUse> nodes_of_qos(const std::string& name) const;
  std::optional<NodesInUse> nodes_of_qos_user(const std::string& qos, UserId user) const;
  std::optional<NodesInUse> nodes_of_qos_account(const std::string& qos, const std::string& account) const;
  std::optional<NodesInUse> nodes_of_association(const Directory& directory, const std::string& account, UserId user,
                                                 const std::string& partition) const;
  std::int64_t licences_in_use(std::string_view name) const;
  std::int64_t licences_in_use_under(const std::string& reservation,
                                     const std::string& name) const;  // by jobs naming it
  const QuotaTree& quotas() const { return quotas_; }

  friend bool operator==(const Ledger& a, const Ledger& b) {
    return a.accounts_ == b.accounts_ && a.associations_ == b.associations_ && a.qos_ == b.qos_ &&
           a.qos_users_ == b.qos_users_ && a.qos_accounts_ == b.qos_accounts_ && a.licences_ == b.licences_ &&
           a.reserved_ == b.reserved_ && a.nodes_.agrees_with(b.nodes_);
  }

 private:
  template <class F>
  void each_use(const JobSpec& spec, const std::string& partition, F&& change);
  void submit(const JobSpec& spec, std::int64_t count);
  void count_nodes(const Claim& claim, std::int64_t times);
  void sum_up();
  bool counts_jobs() const { return !own_.empty(); }
  const std::string& qos_of(const JobSpec& spec, const std::string& partition) const;  // the partition's; "" = none

  using AssociationKey = std::tuple<std::string, UserId, std::string>;
  std::map<std::string, Ref<Account>, std::less<>> tree_;  // name, parent, quota
  std::map<std::string, Use, std::less<>> own_;            // by account, without those below
  std::map<std::string, Use, std::less<>> accounts_, qos_;
  std::map<AssociationKey, Use> associations_;
  std::map<std::pair<std::string, UserId>, Use> qos_users_;
  std::map<std::pair<std::string, std::string>, Use> qos_accounts_;
  std::map<std::string, std::int64_t, std::less<>> licences_;
  std::map<std::pair<std::string, std::string>, std::int64_t> reserved_;  // reservation, licence
  QuotaTree quotas_;
  std::map<std::string, std::string, std::less<>> partition_qos_;  // of partitions that have one
  std::string default_partition_;
  NodeTally nodes_;
};

// TRES-minutes that jobs of the use may still spend at `now`.
Tres run_minutes(const Use& use, Instant now);
// The same for one job.
Tres limit_minutes(const Tres& tres, Duration limit);

}  // namespace lockstep
