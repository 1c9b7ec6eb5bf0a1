#include "rules/ledger.h"

#include <algorithm>

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

// What an allocation holds is fixed at its start; only when its limit strikes may move.
struct Held {
  const Allocation* allocation = nullptr;
  Instant limit_end;
  friend bool operator==(const Held&, const Held&) = default;
};
Held held(const Job* job) {
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

template <class F>
void Ledger::each_use(const JobSpec& spec, const std::string& partition, F&& change) {
  change_in(own_, spec.account, change);
  for (auto at = tree_.find(spec.account.get()); at != tree_.end(); at = tree_.find(at->second->parent))
    change_in(accounts_, at->first, change);
  change_in(associations_, AssociationKey{spec.account, spec.user, partition}, change);
  if (spec.qos.empty())
    return;
  change_in(qos_, spec.qos, change);
  change_in(qos_users_, std::pair{spec.qos, spec.user}, change);
  change_in(qos_accounts_, std::pair{spec.qos, spec.account}, change);
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
}

void Ledger::index(const Job* before, const Job* after) {
  const Held had = held(before), has = held(after);
  const std::int64_t was = submitted(before), is = submitted(after);
  const bool same_spec = before && after && before->spec == after->spec;
  if (same_spec && was == is && had == has)
    return;
  const auto claim = [](const Job& job, const Held& held) {
    return Claim{job.spec.get(), held.allocation->partition, &held.allocation->tres, held.limit_end,
                 held.allocation->granted};
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

void Ledger::index(const Account* before, const Account* after) {
  const bool same = before && after && before->parent == after->parent && before->quota == after->quota;
  if (same)
    return;
  if (after)
    tree_[after->meta.name] = std::make_shared<const Account>(*after);
  else
    tree_.erase(before->meta.name);
  sum_up();
}

void Ledger::sum_up() {
  accounts_.clear();
  std::map<std::string, Tres, std::less<>> held;
  for (const auto& [name, use] : own_) {
    held[name] = use.tres;
    for (auto at = tree_.find(name); at != tree_.end(); at = tree_.find(at->second->parent))
      change_in(accounts_, at->first, [&use = use](Use& sum) {
        sum.jobs += use.jobs;
        sum.submitted += use.submitted;
        add(sum.tres, use.tres);
        add(sum.end_minutes, use.end_minutes);
      });
  }
  quotas_ = QuotaTree(tree_, held);
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

std::int64_t Ledger::licences_held(std::string_view name) const {
  const auto it = licences_.find(name);
  return it == licences_.end() ? 0 : it->second;
}

std::int64_t Ledger::licences_held_in(const std::string& reservation, const std::string& name) const {
  const auto it = reserved_.find({reservation, name});
  return it == reserved_.end() ? 0 : it->second;
}

Tres run_minutes(const Use& use, Instant now) {
  // A job that is being stopped at its limit still holds something, so an amount may come out below zero.
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
