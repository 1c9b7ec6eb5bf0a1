#include "rules/ledger.h"

#include <algorithm>

#include "model/job.h"
#include "model/spec.h"
#include "rules/fit.h"
#include "rules/tres.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
constexpr Duration kNoEnd = hours(365 * 24);  // what a job without a limit counts for

const std::string& partition_of(const JobSpec& spec) {
  static const std::string none;
  return spec.partitions.empty() ? none : spec.partitions.front();
}

std::int64_t submitted(const Job* job) {
  if (!job || is_final(job->state))
    return 0;
  return job->array ? static_cast<std::int64_t>(job->array->waiting.size()) : 1;
}

std::int64_t end_minute(Instant limit_end, Instant granted) {
  const Instant end = limit_end < kNever ? limit_end : granted + kNoEnd;
  return (end.us + kMinuteUs - 1) / kMinuteUs;
}

// What an allocation grants is fixed at its start; only when its limit strikes may move.
struct Granted {
  const Allocation* allocation = nullptr;
  Instant limit_end;
  friend bool operator==(const Granted&, const Granted&) = default;
};
Granted granted(const Job* job) {
  if (!job || !holds_allocation(job->state))
    return {};
  const Allocation* allocation = job->allocation.get();
  if (job->limit_end)
    return {allocation, job->limit_end};
  return {allocation, allocation->limit >= kForever ? kNever : allocation->granted + allocation->limit};
}

const Use kNothing;

template <class Map, class K>
const Use& use_in(const Map& map, const K& key) {
  const auto it = map.find(key);
  return it == map.end() ? kNothing : it->second;
}

template <class Map, class K>
void add_to(Map& map, const K& key, std::int64_t count) {
  const auto it = map.try_emplace(key).first;
  it->second += count;
  if (it->second == 0)
    map.erase(it);
}

template <class Map, class K, class F>
void change_in(Map& map, const K& key, F&& change) {
  const auto it = map.try_emplace(key).first;
  change(it->second);
  if (it->second == kNothing)
    map.erase(it);
}

}  // namespace

const std::string& Ledger::qos_of(const JobSpec& spec, const std::string& partition) const {
  static const std::string none;
  const auto it = partition_qos_.find(partition.empty() ? default_partition_ : partition);
  return it == partition_qos_.end() || spec.qos == it->second ? none : it->second;
}

template <class F>
void Ledger::each_use(const JobSpec& spec, const std::string& partition, F&& change) {
  change_in(own_, spec.account, change);
  for (auto at = tree_.find(spec.account.get()); at != tree_.end(); at = tree_.find(at->second->parent))
    change_in(accounts_, at->first, change);
  change_in(associations_, AssociationKey{spec.account, spec.user, partition}, change);
  const auto change_qos = [&](const std::string& qos) {
    if (qos.empty())
      return;
    change_in(qos_, qos, change);
    change_in(qos_users_, std::pair{qos, spec.user}, change);
    change_in(qos_accounts_, std::pair<std::string, std::string>{qos, spec.account}, change);
  };
  change_qos(spec.qos);
  change_qos(qos_of(spec, partition));
}

void Ledger::count_nodes(const Claim& claim, std::int64_t times) {
  if (!claim.grants || !nodes_.keeps_any())
    return;
  using Of = NodeTally::Of;
  const JobSpec& spec = *claim.spec;
  const std::string partition(claim.partition);
  std::set<NodeId> nodes;
  for (const Grant& grant : *claim.grants)
    if (occupies(grant))
      nodes.insert(grant.node);
  for (auto at = tree_.find(spec.account.get()); at != tree_.end(); at = tree_.find(at->second->parent))
    nodes_.count({Of::kAccount, at->first, {}, {}}, nodes, times);
  nodes_.count({Of::kAssociation, spec.account, spec.user, partition}, nodes, times);
  for (const std::string& qos : {spec.qos.get(), qos_of(spec, partition)})
    if (!qos.empty()) {
      nodes_.count({Of::kQos, qos, {}, {}}, nodes, times);
      nodes_.count({Of::kQosUser, qos, spec.user, {}}, nodes, times);
      nodes_.count({Of::kQosAccount, qos, {}, spec.account}, nodes, times);
    }
}

void Ledger::submit(const JobSpec& spec, std::int64_t count) {
  if (count != 0)
    each_use(spec, partition_of(spec), [count](Use& use) { use.submitted += count; });
}

void Ledger::count(const Claim& claim, std::int64_t times) {
  const std::int64_t minute = end_minute(claim.limit_end, claim.granted);
  each_use(*claim.spec, std::string(claim.partition), [&](Use& use) {
    use.jobs += times;
    add_times(use.tres, *claim.tres, times);
    add_times(use.end_minutes, *claim.tres, times * minute);
  });
  for (const NamedCount& other : claim.tres->others)
    if (other.name.starts_with("license/")) {
      const std::string name = other.name.substr(8);
      add_to(licences_, name, times * other.count);
      if (!claim.spec->reservation.empty())
        add_to(reserved_, std::pair{claim.spec->reservation, name}, times * other.count);
    }
  quotas_.add(claim.spec->account, *claim.tres, times);
  count_nodes(claim, times);
}

void Ledger::index(const Job* before, const Job* after) {
  const Granted had = granted(before), has = granted(after);
  const std::int64_t was = submitted(before), is = submitted(after);
  const bool same_spec = before && after && before->spec == after->spec;
  if (same_spec && was == is && had == has)
    return;
  const auto claim = [](const Job& job, const Granted& now) {
    return Claim{job.spec.get(), now.allocation->partition, &now.allocation->tres,
                 now.limit_end,  now.allocation->granted,   &now.allocation->grants};
  };
  if (before) {
    submit(*before->spec, -was);
    if (had.allocation)
      count(claim(*before, had), -1);
  }
  if (after) {
    submit(*after->spec, is);
    if (has.allocation)
      count(claim(*after, has), 1);
  }
}

bool Ledger::index(const Account* before, const Account* after) {
  const bool bounds_nodes = after && after->limits.grp_tres.nodes != kNoLimit;
  const bool newly_kept = bounds_nodes && nodes_.keep(NodeTally::Of::kAccount, after->meta.name);
  const bool moved = !before || !after || before->parent != after->parent;
  if (!moved && before->quota == after->quota)
    return newly_kept && counts_jobs();
  if (after)
    tree_[after->meta.name] = std::make_shared<const Account>(*after);
  else
    tree_.erase(before->meta.name);
  sum_up();
  return (newly_kept || (moved && nodes_.keeps_any())) && counts_jobs();
}

bool Ledger::index(const Association*, const Association* after) {
  return after && after->limits.grp_tres.nodes != kNoLimit &&
         nodes_.keep(NodeTally::Of::kAssociation, after->account) && counts_jobs();
}

bool Ledger::index(const Qos*, const Qos* after) {
  using Of = NodeTally::Of;
  if (!after)
    return false;
  const Limits& limits = after->limits;
  bool newly_kept = limits.grp_tres.nodes != kNoLimit && nodes_.keep(Of::kQos, after->meta.name);
  newly_kept |= limits.max_tres_per_user.nodes != kNoLimit && nodes_.keep(Of::kQosUser, after->meta.name);
  newly_kept |= limits.max_tres_per_account.nodes != kNoLimit && nodes_.keep(Of::kQosAccount, after->meta.name);
  return newly_kept && counts_jobs();
}

bool Ledger::index(const Partition* before, const Partition* after) {
  const std::string& name = (after ? after : before)->meta.name;
  const std::string was_default = default_partition_;
  const auto known = partition_qos_.find(name);
  const std::string had = known == partition_qos_.end() ? "" : known->second, has = after ? after->qos : "";
  if (has.empty())
    partition_qos_.erase(name);
  else
    partition_qos_[name] = has;
  if (after && after->is_default)
    default_partition_ = name;
  else if (default_partition_ == name)
    default_partition_.clear();
  // Who named no partition and waits counts for the default one's QOS.
  const bool other_default = was_default != default_partition_ && !partition_qos_.empty();
  return (had != has || other_default) && counts_jobs();
}

void Ledger::forget_jobs() {
  own_.clear();
  qos_.clear();
  associations_.clear();
  qos_users_.clear();
  qos_accounts_.clear();
  licences_.clear();
  reserved_.clear();
  nodes_.forget();
  sum_up();
}

void Ledger::sum_up() {
  accounts_.clear();
  std::map<std::string, Tres, std::less<>> in_use;
  for (const auto& [name, use] : own_) {
    in_use[name] = use.tres;
    for (auto at = tree_.find(name); at != tree_.end(); at = tree_.find(at->second->parent))
      change_in(accounts_, at->first, [&use = use](Use& sum) {
        sum.jobs += use.jobs;
        sum.submitted += use.submitted;
        add(sum.tres, use.tres);
        add(sum.end_minutes, use.end_minutes);
      });
  }
  quotas_ = QuotaTree(tree_, in_use);
}

void Ledger::clear() { *this = {}; }

const Use& Ledger::of_account(std::string_view name) const { return use_in(accounts_, name); }
const Use& Ledger::of_qos(std::string_view name) const { return use_in(qos_, name); }
const Use& Ledger::of_qos_user(const std::string& qos, UserId user) const {
  return use_in(qos_users_, std::pair{qos, user});
}
const Use& Ledger::of_qos_account(const std::string& qos, const std::string& account) const {
  return use_in(qos_accounts_, std::pair{qos, account});
}

Use Ledger::of_association(const Directory& directory, const std::string& account, UserId user,
                           const std::string& partition) const {
  if (!partition.empty())
    return use_in(associations_, AssociationKey{account, user, partition});
  Use sum;
  for (auto it = associations_.lower_bound({account, user, ""});
       it != associations_.end() && std::get<0>(it->first) == account && std::get<1>(it->first) == user; ++it) {
    const std::string& where = std::get<2>(it->first);
    const Association* own = directory.association(account, user, where);
    if (own && !own->partition.empty())
      continue;
    sum.jobs += it->second.jobs;
    sum.submitted += it->second.submitted;
    add(sum.tres, it->second.tres);
    add(sum.end_minutes, it->second.end_minutes);
  }
  return sum;
}

std::optional<NodesInUse> Ledger::nodes_of_account(const std::string& name) const {
  if (!nodes_.keeps(NodeTally::Of::kAccount, name))
    return std::nullopt;
  return NodesInUse({&nodes_.of({NodeTally::Of::kAccount, name, {}, {}})});
}
std::optional<NodesInUse> Ledger::nodes_of_qos(const std::string& name) const {
  if (!nodes_.keeps(NodeTally::Of::kQos, name))
    return std::nullopt;
  return NodesInUse({&nodes_.of({NodeTally::Of::kQos, name, {}, {}})});
}
std::optional<NodesInUse> Ledger::nodes_of_qos_user(const std::string& qos, UserId user) const {
  if (!nodes_.keeps(NodeTally::Of::kQosUser, qos))
    return std::nullopt;
  return NodesInUse({&nodes_.of({NodeTally::Of::kQosUser, qos, user, {}})});
}
std::optional<NodesInUse> Ledger::nodes_of_qos_account(const std::string& qos, const std::string& account) const {
  if (!nodes_.keeps(NodeTally::Of::kQosAccount, qos))
    return std::nullopt;
  return NodesInUse({&nodes_.of({NodeTally::Of::kQosAccount, qos, {}, account})});
}
std::optional<NodesInUse> Ledger::nodes_of_association(const Directory& directory, const std::string& account,
                                                       UserId user, const std::string& partition) const {
  if (!nodes_.keeps(NodeTally::Of::kAssociation, account))
    return std::nullopt;
  const NodeTally::Holder holder{NodeTally::Of::kAssociation, account, user, partition};
  if (!partition.empty())
    return NodesInUse({&nodes_.of(holder)});
  return NodesInUse(nodes_.of_all_parts(holder, [&](const std::string& where) {
    const Association* own = directory.association(account, user, where);
    return !own || own->partition.empty();
  }));
}

std::int64_t Ledger::licences_in_use(std::string_view name) const {
  const auto it = licences_.find(name);
  return it == licences_.end() ? 0 : it->second;
}

std::int64_t Ledger::licences_in_use_under(const std::string& reservation, const std::string& name) const {
  const auto it = reserved_.find({reservation, name});
  return it == reserved_.end() ? 0 : it->second;
}

Tres run_minutes(const Use& use, Instant now) {
  // A job that is being stopped at its limit still has something, so an amount may come out below zero.
  Tres out = use.end_minutes;
  add_times(out, use.tres, -((now.us + kMinuteUs - 1) / kMinuteUs));
  for (const TresField& field : kTresFields) out.*field.count = std::max<std::int64_t>(out.*field.count, 0);
  std::erase_if(out.others, [](const NamedCount& other) { return other.count <= 0; });
  return out;
}

Tres limit_minutes(const Tres& tres, Duration limit) {
  Tres out;
  add_times(out, tres, (std::min(limit, kNoEnd).us + kMinuteUs - 1) / kMinuteUs);
  return out;
}

}  // namespace lockstep
