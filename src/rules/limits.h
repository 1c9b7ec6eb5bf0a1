// May this job be submitted, may it start now: limits of QOS, associations and accounts, quotas and licences, with
// Slurm's word for the first that says no. Both the core (before it commits) and the planner (filter and reason) ask.
//
// Order and meaning follow https://slurm.schedmd.com/resource_limits.html: the partition's QOS (after the job's with
// override_partition), the job's QOS, the user's association, the accounts upwards. A limit that a QOS sets hides the
// same limit of associations; of the Max limits of associations and accounts the nearest counts; group (Grp) limits
// bind at every account on the way up.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "rules/ledger.h"
#include "rules/tres.h"
#include "rules/usage.h"

namespace lockstep {

struct Denial {
  std::string reason;           // "QOSMaxGRESPerUser", "AssocGrpCpuLimit", "Licenses", "AccountQuota"
  std::string holder;           // "QOS gold", "account physics", "user bob in account physics"
  Excess excess;                // which amount
  bool lasting = false;         // the end of other jobs does not change it: only a change of limits or of the job does
  std::string message() const;  // "QOSMaxGRESPerUser: QOS gold allows 8 gres/gpu, 4 are held, 8 asked for"
};

// The facts of a job that limits look at. A place that is not known yet: least_tres() and no per_node.
struct LimitAsk {
  const JobSpec* spec = nullptr;         // account, user and QOS as resolved
  const Partition* partition = nullptr;  // where it would start; null = not known
  Tres tres;
  std::optional<Tres> per_node;  // largest_node_tres()
  Duration limit = kForever;     // time limit
  std::vector<NodeId> nodes;     // of the place, each once; empty = not known
};

// The Spendings of now: asked for only where a limit of minutes is set.
using AskSpendings = std::function<const Spendings&()>;

std::optional<Denial> first_denial_to_start(const Directory& directory, const Ledger& ledger, const LimitAsk& ask,
                                            Instant now, const AskSpendings& spendings);

// What first_denial_to_start() looks at of what is in use, for jobs of the spec's account, user and QOS in the
// partition: as long as these amounts are equal its answer to one ask is. False: not so, as minutes are bounded and
// time counts.
bool amounts_that_bind(const Directory& directory, const Ledger& ledger, const JobSpec& spec,
                       const Partition* partition, std::vector<std::int64_t>& out);

// At submit: `jobs` more jobs (array elements one by one). Limits on the number of submitted jobs, and with a QOS of
// deny_on_limit everything the job alone exceeds, group limits included.
std::optional<Denial> first_denial_to_submit(const Directory& directory, const Ledger& ledger, const LimitAsk& ask,
                                             std::int64_t jobs);

// A bound on what several jobs use together, as far as it binds this job: of a group, or of one user or account under
// a QOS. Minutes, quotas and numbers of nodes are not among them: jobs may share nodes, which no sum shows.
struct SharedBound {
  std::string holder;    // equal for jobs that share it: "qos gold/user 7"
  std::string resource;  // name of a TRES, or "jobs"
  std::int64_t bound = 0;
};
std::vector<SharedBound> shared_bounds(const Directory& directory, const JobSpec& spec, const Partition* partition);

// A bound on minutes that jobs use up while they run, as far as it binds this one.
struct MinuteBound {
  std::string holder;      // "QOS gold", "account physics", "association physics/bob/"
  std::string resource;    // name of a TRES; "" = wall time
  std::int64_t bound = 0;  // minutes
  bool per_job = false;    // of the job alone (MaxTRESMins); else of the holder (GrpTRESMins, GrpWall)
};
std::vector<MinuteBound> minute_bounds(const Directory& directory, const JobSpec& spec, const Partition* partition);

// Licences only: what is in use, and what reservations keep away (reserved, by name). lasting: asks for more than there
// are.
std::optional<Denial> licence_denial(const Directory& directory, const Ledger& ledger, const Tres& tres,
                                     const std::vector<NamedCount>& reserved = {});

// What a job gets that names no account or QOS, and whether it may use what it names. Errors in Slurm's words.
struct Standing {
  std::string account, qos;
};
Result<Standing> standing_of(const Directory& directory, const JobSpec& spec);
// Whether the partition takes the account and the QOS; the word is AccountNotAllowed or QOSNotAllowed.
std::optional<std::string> partition_refuses(const Partition& partition, const std::string& account,
                                             const std::string& qos);

// What PlanNote::detail says of a job that waits for a partition that is down, where that takes no new jobs either.
inline constexpr std::string_view kPartitionClosed = "closed";

// The partition as its bounds are for the job, where the job's QOS may exceed them (PartitionTimeLimit,
// PartitionMaxNodes); nullopt = as they stand.
std::optional<Partition> eased_for(const Directory& directory, const Partition& partition, const std::string& qos);

// The lowest priority that gets a promise of a start; 0 = any.
std::int64_t min_priority_of(const Directory& directory, const JobSpec& spec, const Partition* partition);

}  // namespace lockstep
