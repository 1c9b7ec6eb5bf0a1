#include "core/accounting.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "core/attempts.h"
#include "core/directory.h"
#include "core/versions.h"
#include "model/job.h"
#include "rules/growth.h"
#include "rules/preempt.h"
#include "rules/reservation.h"

namespace lockstep {

namespace {

Result<void> check_name(const std::string& name, const char* what) {
  if (name.empty())
    return invalid(format("{} needs a name", what), "name");
  if (name.find_first_of(" ,/|\t\n") != std::string::npos || name.starts_with('-'))
    return invalid(format("{} cannot be named {}: no blanks, commas, slashes, bars or a leading dash", what, name),
                   "name");
  return {};
}

Result<void> put_in_order(TresLimit& limit) {
  TresLimit out = limit;
  out.others.clear();
  for (const NamedCount& other : limit.others)
    if (!set_bound(out, other.name, other.count))
      return invalid(format("Unknown TRES: {}", other.name), "limits");
  for (const TresField& field : kTresFields)
    if (limit.*field.limit < kNoLimit)
      return invalid(format("a limit of {} {} is out of range", limit.*field.limit, field.name), "limits");
  for (const NamedCount& other : out.others)
    if (other.count < 0)
      return invalid(format("a limit of {} {} is out of range", other.count, other.name), "limits");
  limit = std::move(out);
  return {};
}

Result<void> put_in_order(Limits& limits) {
  for (auto member : {&Limits::grp_tres, &Limits::grp_tres_mins, &Limits::grp_tres_run_mins, &Limits::max_tres_per_job,
                      &Limits::max_tres_per_node, &Limits::max_tres_mins_per_job, &Limits::max_tres_per_user,
                      &Limits::max_tres_per_account, &Limits::min_tres_per_job})
    TRY(put_in_order(limits.*member));
  for (auto member :
       {&Limits::grp_jobs, &Limits::grp_submit_jobs, &Limits::grp_wall_mins, &Limits::max_wall_mins_per_job,
        &Limits::max_jobs, &Limits::max_submit_jobs, &Limits::max_jobs_per_user, &Limits::max_jobs_per_account,
        &Limits::max_submit_jobs_per_user, &Limits::max_submit_jobs_per_account, &Limits::min_priority})
    if (limits.*member < kNoLimit)
      return invalid(format("a limit of {} is out of range", limits.*member), "limits");
  return {};
}

Result<void> put_in_order(Quota& quota, const std::string& account, bool has_children) {
  for (auto member : {&Quota::nominal, &Quota::borrow, &Quota::lend}) TRY(put_in_order(quota.*member));
  const auto check = [&](std::string_view name, std::int64_t nominal, std::int64_t lend) -> Result<void> {
    if (nominal != kNoLimit && lend > nominal && !has_children)
      return invalid(
          format("account {} cannot lend {} {}: it is guaranteed {}, at most that", account, lend, name, nominal),
          "quota.lend");
    return {};
  };
  for (const TresField& field : kTresFields)
    TRY(check(field.name, quota.nominal.*field.limit, quota.lend.*field.limit));
  for (const NamedCount& other : quota.lend.others)
    TRY(check(other.name, bound_of(quota.nominal, other.name), other.count));
  return {};
}

Result<void> check_qos_names(const Tables& tables, const std::vector<std::string>& names, const std::string& fallback) {
  for (const std::string& name : names)
    if (!tables.qos_named(name))
      return not_found(format("there is no QOS {}", name));
  if (fallback.empty())
    return {};
  if (!tables.qos_named(fallback))
    return not_found(format("there is no QOS {}", fallback));
  if (!names.empty() && std::find(names.begin(), names.end(), fallback) == names.end())
    return invalid(format("the default QOS {} is not among those allowed: {}", fallback, join(names, ",")),
                   "default_qos");
  return {};
}

bool coordinates(const Txn& txn, const std::string& account) {
  const User* caller = txn.tables().user(txn.caller().user);
  if (!caller || txn.caller().only_on)
    return false;
  for (const Account* a : txn.tables().chain_of(account))
    if (std::find(a->coordinators.begin(), a->coordinators.end(), caller->meta.name) != a->coordinators.end())
      return true;
  return false;
}

Result<void> need_to_manage(const Txn& txn, const std::string& account) {
  if (coordinates(txn, account))
    return {};
  return need_admin(txn, "change accounts");
}

// Which QOS a QOS reaches by its lists of whom it may stop.
bool reaches(const Tables& tables, const Qos& from, const std::string& name, std::set<std::string>& seen) {
  for (const std::string& next : from.preempts) {
    if (next == name)
      return true;
    const Qos* qos = seen.insert(next).second ? tables.qos_named(next) : nullptr;
    if (qos && reaches(tables, *qos, name, seen))
      return true;
  }
  return false;
}

// A user's in an account: of all partitions, and of one each.
std::vector<Ref<Association>> associations_of(const Tables& tables, const std::string& account,
                                              const std::string& user) {
  std::vector<Ref<Association>> out;
  const std::string name = association_name(account, user, "");
  if (const auto whole = tables.associations.find(name); whole != tables.associations.end())
    out.push_back(whole->second);
  for (auto it = tables.associations.lower_bound(name + "/");
       it != tables.associations.end() && it->first.starts_with(name + "/"); ++it)
    out.push_back(it->second);
  return out;
}

// Removes what is of the account, as much as one command may. False: it goes on with the rest.
template <class Map>
bool remove_all_in(Txn& txn, const Map& records, const std::string& account) {
  for (auto it = records.lower_bound(account + "/"); it != records.end() && it->second->account == account;
       it = records.lower_bound(account + "/")) {
    if (txn.tired()) {
      txn.cut({0, true});
      return false;
    }
    txn.remove(typename Map::mapped_type(it->second));
  }
  return true;
}

// Names of users and accounts hold no "/", so "0", which follows it, ends what begins with them.
bool remove_usages_from(Txn& txn, const std::string& prefix) {
  const auto& usages = txn.tables().usages;
  for (auto it = usages.lower_bound(prefix + "/"); it != usages.end() && it->first < prefix + "0";
       it = usages.lower_bound(prefix + "/")) {
    if (txn.tired())
      return false;
    txn.remove(Ref<Usage>(it->second));
  }
  return true;
}

// Of these users, or with none of everybody, in one account after the other. A part of a command begins behind so many
// accounts whose use stays.
template <class F>
void remove_usages(Txn& txn, const std::vector<UserId>& users, bool everybody, const F& of_account) {
  const auto& usages = txn.tables().usages;
  std::uint64_t kept = 0;
  for (auto it = usages.begin(); it != usages.end();) {
    const std::string account = it->second->account;
    bool done = true;
    if (kept >= txn.part().from && of_account(account)) {
      if (everybody)
        done = remove_usages_from(txn, account);
      for (std::size_t i = 0; i < users.size() && done; ++i)
        done = remove_usages_from(txn, account + "/" + std::to_string(users[i].value));
    }
    if (!done || txn.tired())
      return txn.cut({kept, true});
    txn.looked();
    it = usages.lower_bound(account + "0");
    kept += it != usages.begin() && std::prev(it)->second->account == account;
  }
}

}  // namespace

Result<Answer> put_account(Txn& txn, const PutAccount& ask) {
  Account account = ask.account;
  const std::string& name = account.meta.name;
  const auto& accounts = txn.tables().accounts;
  const Account* known = txn.tables().account(name);
  // A coordinator shapes what is below, not the account itself.
  if (account.parent.empty() || !coordinates(txn, account.parent) || (known && known->parent != account.parent))
    TRY(need_admin(txn, "change accounts"));
  TRY(check_name(name, "an account"));
  TRY(expect_version(txn.tables(), account, ask.if_seq, "account " + name));
  for (std::string up = account.parent; !up.empty();) {
    if (up == name)
      return invalid(format("account {} would be below itself", name), "parent");
    const auto it = accounts.find(up);
    if (it == accounts.end())
      return not_found(format("there is no account {}", up));
    up = it->second->parent;
  }
  const bool has_children =
      std::any_of(accounts.begin(), accounts.end(), [&](const auto& entry) { return entry.second->parent == name; });
  TRY(check_qos_names(txn.tables(), account.qos, account.default_qos));
  TRY(put_in_order(account.limits));
  TRY(put_in_order(account.quota, name, has_children));
  return Answer{.seq = txn.put(std::move(account))->meta.seq};
}

Result<void> remove_account(Txn& txn, const RemoveAccount& ask) {
  TRY(need_admin(txn, "remove accounts"));
  const auto it = txn.tables().accounts.find(ask.name);
  if (it == txn.tables().accounts.end())
    return not_found(format("there is no account {}", ask.name));
  for (const auto& [name, other] : txn.tables().accounts)
    if (other->parent == ask.name)
      return conflict(format("account {} is below {}: remove or move it first", name, ask.name));
  if (const JobId job = txn.inner().named.first(Named::Noun::kAccount, ask.name))
    return conflict(format("Job(s) active, cannot remove: job {} is charged to account {}", job.value, ask.name));
  for (const auto& [name, r] : txn.tables().reservations)
    if (std::find(r->accounts.begin(), r->accounts.end(), ask.name) != r->accounts.end())
      return conflict(format("reservation {} is for account {}", name, ask.name));
  if (!remove_all_in(txn, txn.tables().associations, ask.name) || !remove_all_in(txn, txn.tables().usages, ask.name))
    return {};
  txn.remove(Ref<Account>(txn.tables().accounts.find(ask.name)->second));
  return {};
}

Result<Answer> put_association(Txn& txn, const PutAssociation& ask) {
  Association association = ask.association;
  TRY(need_to_manage(txn, association.account));
  TRY(check_name(association.user, "a user"));
  if (!txn.tables().account(association.account))
    return not_found(format("there is no account {}", association.account));
  if (!association.partition.empty() && !txn.tables().partition(association.partition))
    return not_found(format("invalid partition specified: {}", association.partition));
  association.meta.name = association_name(association.account, association.user, association.partition);
  TRY(expect_version(txn.tables(), association, ask.if_seq, "the association " + association.meta.name));
  TRY(check_qos_names(txn.tables(), association.qos, association.default_qos));
  TRY(put_in_order(association.limits));

  // One of a user's accounts is the default: the first, until another is named so.
  const std::string fallback = txn.tables().default_account(association.user);
  if (fallback.empty())
    association.is_default = true;
  if (association.is_default && !fallback.empty() && fallback != association.account)
    for (const Ref<Association>& other : associations_of(txn.tables(), fallback, association.user))
      if (other->is_default) {
        Association next = *other;
        next.is_default = false;
        txn.put(std::move(next));
      }
  return Answer{.seq = txn.put(std::move(association))->meta.seq};
}

Result<void> remove_association(Txn& txn, const RemoveAssociation& ask) {
  const auto it = txn.tables().associations.find(ask.name);
  if (it == txn.tables().associations.end())
    return not_found(format("there is no association {}", ask.name));
  const Ref<Association> record = it->second;
  TRY(need_to_manage(txn, record->account));
  const auto counts_here = [&](UserId user, const std::string& partition) {
    return txn.tables().association(record->account, user, partition) == record.get();
  };
  if (const JobId job = txn.inner().named.first_in(record->account, counts_here))
    return conflict(format("Job(s) active, cannot remove: job {} is of user {} in account {}", job.value, record->user,
                           record->account));
  txn.remove(record);
  const auto others = txn.inner().associations_of.find(record->user);
  if (!record->is_default || others == txn.inner().associations_of.end())
    return {};
  Association next = *txn.tables().associations.find(*others->second.begin())->second;
  next.is_default = true;
  txn.put(std::move(next));
  return {};
}

Result<Answer> put_qos(Txn& txn, const PutQos& ask) {
  TRY(need_admin(txn, "change QOS"));
  Qos qos = ask.qos;
  const std::string& name = qos.meta.name;
  TRY(check_name(name, "a QOS"));
  TRY(expect_version(txn.tables(), qos, ask.if_seq, "QOS " + name));
  for (const std::string& other : qos.preempts)
    if (!txn.tables().qos_named(other) && other != name)
      return not_found(format("there is no QOS {}", other));
  std::set<std::string> seen;
  if (reaches(txn.tables(), qos, name, seen))
    return invalid(format("QOS Preemption loop detected: {} would preempt itself", name), "preempts");
  if (qos.grace.us < 0 || qos.preempt_exempt.us < 0)
    return invalid("a span of time is negative", "grace_us");
  TRY(put_in_order(qos.limits));
  return Answer{.seq = txn.put(std::move(qos))->meta.seq};
}

Result<void> remove_qos(Txn& txn, const RemoveQos& ask) {
  TRY(need_admin(txn, "remove QOS"));
  const auto it = txn.tables().qos.find(ask.name);
  if (it == txn.tables().qos.end())
    return not_found(format("there is no QOS {}", ask.name));
  const auto in = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), ask.name) != list.end();
  };
  if (const JobId job = txn.inner().named.first(Named::Noun::kQos, ask.name))
    return conflict(format("Job(s) active, cannot remove: job {} uses QOS {}", job.value, ask.name));
  for (const auto& [name, a] : txn.tables().accounts)
    if (in(a->qos) || a->default_qos == ask.name)
      return conflict(format("account {} names QOS {}: change it first", name, ask.name));
  if (const auto naming = txn.inner().qos_of_associations.find(ask.name);
      naming != txn.inner().qos_of_associations.end()) {
    const Association& a = *txn.tables().associations.find(*naming->second.begin())->second;
    return conflict(format("user {} in account {} names QOS {}: change it first", a.user, a.account, ask.name));
  }
  for (const auto& [name, p] : txn.tables().partitions)
    if (p->qos == ask.name || in(p->allow_qos) || in(p->deny_qos))
      return conflict(format("partition {} names QOS {}: change it first", name, ask.name));
  for (const auto& [name, q] : txn.tables().qos)
    if (in(q->preempts))
      return conflict(format("QOS {} names QOS {}: change it first", name, ask.name));
  txn.remove(Ref<Qos>(it->second));
  return {};
}

Result<Answer> put_licence(Txn& txn, const PutLicence& ask) {
  TRY(need_admin(txn, "change licences"));
  TRY(check_name(ask.licence.meta.name, "a licence"));
  TRY(expect_version(txn.tables(), ask.licence, ask.if_seq, "licence " + ask.licence.meta.name));
  if (ask.licence.total < 0 || ask.licence.total > INT32_MAX)
    return invalid(format("{} licences are out of range", ask.licence.total), "total");
  return Answer{.seq = txn.put(Licence(ask.licence))->meta.seq};
}

Result<void> remove_licence(Txn& txn, const RemoveLicence& ask) {
  TRY(need_admin(txn, "remove licences"));
  const auto it = txn.tables().licences.find(ask.name);
  if (it == txn.tables().licences.end())
    return not_found(format("there is no licence {}", ask.name));
  if (const JobId job = txn.inner().named.first(Named::Noun::kLicence, ask.name))
    return conflict(format("job {} asks for licence {}: cancel or change it first", job.value, ask.name));
  txn.remove(Ref<Licence>(it->second));
  return {};
}

Result<Answer> put_policy(Txn& txn, const PutPolicy& ask) {
  TRY(need_admin(txn, "change the policy"));
  TRY(expect_version(txn.tables(), ask.policy, ask.if_seq, "the policy"));
  Policy policy = ask.policy;
  policy.meta.name = "policy";
  if (policy.half_life.us < 0 || policy.age_max.us <= 0 || policy.calc_period.us <= 0)
    return invalid("a span of time is out of range", "half_life_us");
  Tres known;
  for (const TresWeight& weight : policy.weight_tres)
    if (!set_count(known, weight.name, 1) || weight.milli < 0)
      return invalid(format("Unknown TRES: {}", weight.name), "weight_tres");
  return Answer{.seq = txn.put(std::move(policy))->meta.seq};
}

Result<void> reset_usage(Txn& txn, const ResetUsage& ask) {
  TRY(need_admin(txn, "reset usage"));
  if (!ask.account.empty() && !txn.tables().account(ask.account))
    return not_found(format("there is no account {}", ask.account));
  std::vector<UserId> users;
  if (!ask.user.empty())
    for (const auto& [id, user] : txn.tables().users)
      if (user->meta.name == ask.user)
        users.push_back(id);
  remove_usages(txn, users, ask.user.empty(), [&](const std::string& account) {
    const auto chain = txn.tables().chain_of(account);
    return ask.account.empty() ||
           std::any_of(chain.begin(), chain.end(), [&](const Account* a) { return a->meta.name == ask.account; });
  });
  return {};
}

Result<Ref<JobSpec>> with_standing(const Txn& txn, const Ref<JobSpec>& spec) {
  const Tables& tables = txn.tables();
  const Standing standing = TRY(standing_of(tables, *spec));
  Ref<JobSpec> out = spec;
  if (standing.account != spec->account || standing.qos != spec->qos) {
    auto own = std::make_shared<JobSpec>(*spec);
    own->account = standing.account;
    own->qos = standing.qos;
    out = std::move(own);
  }
  for (const NamedCount& licence : TRY(parse_licenses(out->licenses))) {
    const Licence* record = tables.licence(licence.name);
    if (!record)
      return invalid(format("Invalid license specification: there is no licence {}", licence.name), "licenses");
    if (licence.count > record->total)
      return Error{Errc::kImpossible,
                   format("asks for {} of licence {}; there are {}", licence.count, licence.name, record->total),
                   "licenses"};
  }
  const Qos* qos = tables.qos_named(out->qos);
  if (out->reservation.empty()) {
    if (qos && qos->requires_reservation)
      return invalid(format("QOS {} can only be used within a reservation", out->qos), "reservation");
    return out;
  }
  bool any = false;
  for (const std::string& name : split(out->reservation, ',')) {
    const Reservation* r = tables.reservation(name);
    if (!r)
      return invalid(format("Requested reservation is invalid: there is no reservation {}", name), "reservation");
    any = any || admits(tables, *r, *out);
  }
  if (!any)
    return Error{Errc::kDenied, format("Access denied to requested reservation: {}", out->reservation), "reservation"};
  return out;
}

Result<void> check_submit_limits(const Txn& txn, const JobSpec& spec, std::int64_t jobs) {
  const Tables& tables = txn.tables();
  if (tables.qos.empty() && tables.accounts.empty() && tables.associations.empty())
    return {};
  LimitAsk ask;
  ask.spec = &spec;
  ask.partition = spec.partitions.empty() ? tables.default_partition() : tables.partition(spec.partitions.front());
  ask.tres = least_tres(spec);
  ask.limit = spec.time_limit.us != 0 ? spec.time_limit : Duration{};
  if (const auto no = first_denial_to_submit(tables, txn.inner().ledger, ask, jobs))
    return Error{Errc::kExhausted, no->message(), "account"};
  return {};
}

std::optional<Bar> StartRules::bar(const JobSpec& spec, const Partition& partition, const std::vector<Grant>& grants,
                                   const std::vector<const Node*>& nodes, Duration limit, const Ledger* ledger) {
  return bar(start_ask(spec, partition, grants, nodes, limit), ledger);
}

std::optional<Bar> StartRules::bar(const StartAsk& ask, const Ledger* ledger) {
  const Tables& tables = txn_.tables();
  const ClusterState::Inner& inner = txn_.inner();
  const auto spendings = [&]() -> const Spendings& {
    if (!spendings_)
      spendings_.emplace(tables, inner.running_use(), txn_.now(), inner.usage_floor_at(txn_.now()));
    return *spendings_;
  };
  return first_bar(tables, ledger ? *ledger : inner.ledger, ask, txn_.now(), inner.wall_at(txn_.now()), spendings);
}

UsedUp used_up_next(const ClusterState::Inner& inner) {
  std::vector<MinuteUse> running;
  for (JobId id : inner.jobs_with_allocation()) {
    const Job& job = *inner.tables.job(id);
    const auto& groups = job.spec->groups;
    const bool grows = std::any_of(groups.begin(), groups.end(), is_elastic);
    running.push_back({.use = {job.spec.get(), job.allocation.get()},
                       .partition = inner.tables.partition(job.allocation->partition),
                       .may_end = job.state == JobState::kRunning || job.state == JobState::kSuspended,
                       .is_paused = is_paused(job),
                       // What a group had before it grew was less, and is not known any more.
                       .since = grows ? job.allocation->granted : job.started + job.suspended_before});
  }
  return next_used_up(inner.tables, running, inner.last, inner.usage_floor_at(inner.last));
}

void end_used_up(Txn& txn, std::size_t most) {
  if (txn.inner().minutes_due() > txn.now())
    return;
  const UsedUp over = used_up_next(txn.inner());
  if (over.at > txn.now())
    return;
  const std::vector<JobId> having = txn.inner().jobs_with_allocation();
  for (std::size_t i = 0; i < std::min(over.jobs.size(), most); ++i) {
    const Ref<Job> job = txn.job(having[over.jobs[i]]);
    txn.event(*job, "MinutesUsedUp", over.words[i]);
    end_attempt(txn, *job, {.state = JobState::kTimeout, .reason = "TimeLimit"});
  }
}

bool keeps_usage(const Directory& directory, const JobSpec& spec) {
  if (!spec.health_check.empty())
    return false;  // what the cluster does for itself counts against nobody
  if (!directory.accounts.empty())
    return true;
  const Qos* qos = directory.qos_named(spec.qos);
  return qos && (!bounds_nothing(qos->limits.grp_tres_mins) || qos->limits.grp_wall_mins != kNoLimit);
}

void charge_usage(Txn& txn, const Job& job, Instant until) {
  if (!keeps_usage(txn.tables(), *job.spec))
    return;
  const RunningUse use{job.spec.get(), job.allocation.get()};
  const auto before = txn.tables().usages.find(usage_name_of(txn.tables(), use));
  txn.put(charged(txn.tables(), before == txn.tables().usages.end() ? nullptr : before->second.get(), use, txn.now(),
                  txn.inner().usage_floor_at(txn.now()), until));
}

void refund_usage(Txn& txn, const Job& job, Instant from, Instant charged_until) {
  if (from >= charged_until || !keeps_usage(txn.tables(), *job.spec))
    return;
  const RunningUse use{job.spec.get(), job.allocation.get()};
  const auto before = txn.tables().usages.find(usage_name_of(txn.tables(), use));
  if (before != txn.tables().usages.end())
    txn.put(refunded(txn.tables(), *before->second, use, txn.now(), txn.inner().usage_floor_at(txn.now()), from,
                     charged_until));
}

}  // namespace lockstep
