// Accounts, associations, QOS, licences and the policy: their commands, what a new job needs of them, and what an ended
// attempt is charged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/txn.h"
#include "rules/admission.h"

namespace lockstep {

Result<Answer> put_account(Txn& txn, const PutAccount& ask);
Result<void> remove_account(Txn& txn, const RemoveAccount& ask);
Result<Answer> put_association(Txn& txn, const PutAssociation& ask);
Result<void> remove_association(Txn& txn, const RemoveAssociation& ask);
Result<Answer> put_qos(Txn& txn, const PutQos& ask);
Result<void> remove_qos(Txn& txn, const RemoveQos& ask);
Result<Answer> put_licence(Txn& txn, const PutLicence& ask);
Result<void> remove_licence(Txn& txn, const RemoveLicence& ask);
Result<Answer> put_policy(Txn& txn, const PutPolicy& ask);
Result<void> reset_usage(Txn& txn, const ResetUsage& ask);

// The spec with the account and QOS the job gets; what it names it may use: account, QOS, licences, reservation.
Result<Ref<JobSpec>> with_standing(const Txn& txn, const Ref<JobSpec>& spec);
// Limits on how many jobs there may be, and what a QOS denies outright. jobs: array elements one by one.
Result<void> check_submit_limits(const Txn& txn, const JobSpec& spec, std::int64_t jobs);

// The hard rules of accounting for starts: limits, quotas, licences, reservations. One serves all starts of a plan.
class StartRules {
 public:
  explicit StartRules(const Txn& txn) : txn_(txn) {}
  // What stands in the way; nullopt = nothing. nodes: one per grant. ledger: as if this were in use; null = what is.
  std::optional<Bar> bar(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                         const std::vector<const Node*>& nodes, Duration limit, const Ledger* ledger = nullptr);
  std::optional<Bar> bar(const StartAsk& ask, const Ledger* ledger = nullptr);

 private:
  const Txn& txn_;
  std::optional<Spendings> spendings_;  // as of now; starts of this plan have spent nothing yet
};

// Which jobs' minutes are used up next (rules/minutes.h), and when; jobs: positions in jobs_with_allocation().
UsedUp used_up_next(const ClusterState::Inner& inner);
// Ends those whose minutes are used up now, as their time limits would.
void end_used_up(Txn& txn, std::size_t most);

// Past use is kept where somebody may look at it: with accounts, or under a QOS with limits of minutes.
bool keeps_usage(const Directory& directory, const JobSpec& spec);
// Charges the attempt that gives its allocation back now.
void charge_usage(Txn& txn, const Job& job, Instant until);
// Takes back what it was charged for from its end, `from`, on. Nothing if it was charged up to no later than that.
void refund_usage(Txn& txn, const Job& job, Instant from, Instant charged_until);

}  // namespace lockstep
