#include "sim/bounds_checker.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "model/accounting.h"
#include "model/allocation.h"
#include "model/job.h"
#include "model/records.h"
#include "model/reservation.h"
#include "model/spec.h"

namespace lockstep::sim {

namespace {

bool has_allocation(const Job* job) { return job && job->allocation; }

bool names(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

bool keeps(const Reservation& r, const std::string& node) { return names(r.nodes, node) || names(r.nodes, "ALL"); }

std::string use_key(const std::string& account, UserId user, const std::string& qos) {
  return format("{}/{}/{}", account, user.value, qos);
}

}  // namespace

void BoundsChecker::complain(const Job& job, const std::string& words) {
  verdict_.fail(format("job {} ({}) attempt {}: {}", job.id.value, job.spec->name, job.attempt, words));
}

void BoundsChecker::saw(std::span<const Change> changes) {
  for (const Change& change : changes) {
    const auto* job = std::get_if<Ref<Job>>(&change.record);
    if (!job) {
      tables_.apply(change);
      continue;
    }
    const auto it = tables_.jobs.find((*job)->id);
    const Ref<Job> before = it == tables_.jobs.end() ? nullptr : it->second;
    tables_.apply(change);
    job_changed(before.get(), change.removed ? nullptr : job->get());
  }
}

void BoundsChecker::job_changed(const Job* before, const Job* after) {
  const Allocation* had = has_allocation(before) ? before->allocation.get() : nullptr;
  const Allocation* has = has_allocation(after) ? after->allocation.get() : nullptr;
  const bool same_attempt = had && has && had->attempt == has->attempt;
  if (had && after)
    charge_change(*before, *after);
  const bool goes_on = same_attempt && before->suspended_at && !after->suspended_at;  // with what it has
  if (!has || goes_on || (same_attempt && had->granted == has->granted))
    return;
  if (same_attempt) {
    const bool less = in_use(*after).cpu < in_use(*before).cpu;
    shrinks_ += less;
    growths_ += !less;
    if (less)
      return;
  }
  check_start(*after);
  check_licences(*after);
  check_reservations(*after, same_attempt ? had : nullptr);
}

// What the job has cost since it was granted what it had. A pause costs nothing.
void BoundsChecker::charge_change(const Job& before, const Job& after) {
  const Allocation& had = *before.allocation;
  const Allocation* has = after.allocation.get();
  if (has && had.attempt == has->attempt && had.granted == has->granted) {
    if (!before.suspended_at && after.suspended_at)
      charge(before, had.granted, after.suspended_at);
    return;
  }
  if (!before.suspended_at)
    charge(before, had.granted, has ? has->granted : after.ended);
  else if (!has && after.ended < before.suspended_at)
    charge(before, before.suspended_at, after.ended);  // it had ended before: that goes back
}

BoundsChecker::InUse BoundsChecker::in_use(const Job& job) {
  InUse out;
  out.jobs = 1;
  for (const Grant& grant : job.allocation->grants) {
    if (grant.tasks == 0)
      continue;
    out.nodes[grant.node] = 1;
    out.cpu += grant.cores.count();
    out.gpus += grant.devices.count();
    for (const DevicePart& part : grant.parts) out.gpus += !part.mig.empty();
    out.memory_mb += grant.memory_mb;
  }
  return out;
}

template <class F>
BoundsChecker::InUse BoundsChecker::sum(F&& counts) const {
  InUse out;
  for (const auto& [id, job] : tables_.jobs)
    if (job->allocation && counts(*job->spec))
      out += in_use(*job);
  return out;
}

bool BoundsChecker::below(const std::string& account, const std::string& above) const {
  std::string at = account;
  for (int depth = 0; depth < 32 && !at.empty(); ++depth) {
    if (at == above)
      return true;
    const Account* record = tables_.account(at);
    at = record ? record->parent : "";
  }
  return false;
}

void BoundsChecker::check_bound(const Job& job, const std::string& whose, const TresLimit& bound, const InUse& all) {
  const InUse own = in_use(job);
  // A bound that was lowered under what runs binds nobody who asks for none of it.
  const auto look = [&](const char* what, std::int64_t most, std::int64_t adds, std::int64_t count) {
    if (most != kNoLimit && adds > 0 && count > most)
      complain(job, format("with it {} {} are held under {}, which allows {}", count, what, whose, most));
  };
  const auto is_new = [&](const auto& node) { return all.nodes.at(node.first) == 1; };
  look("cpus", bound.cpu, own.cpu, all.cpu);
  look("GPUs", bound.gpus, own.gpus, all.gpus);
  look("nodes", bound.nodes, std::count_if(own.nodes.begin(), own.nodes.end(), is_new),
       static_cast<std::int64_t>(all.nodes.size()));
  look("MB", bound.memory_mb, own.memory_mb, all.memory_mb);
}

void BoundsChecker::check_count(const Job& job, const std::string& whose, std::int64_t bound, std::int64_t count) {
  if (bound != kNoLimit && count > bound)
    complain(job, format("with it {} jobs run under {}, which allows {}", count, whose, bound));
}

// Clients set no limit at two levels, so that which one goes before does not matter here.
void BoundsChecker::check_start(const Job& job) {
  const JobSpec& spec = *job.spec;
  const InUse own = in_use(job);
  if (const Qos* qos = tables_.qos_named(spec.qos)) {
    const std::string whose = "QOS " + qos->meta.name;
    const InUse all = sum([&](const JobSpec& s) { return s.qos == spec.qos; });
    const InUse of_user = sum([&](const JobSpec& s) { return s.qos == spec.qos && s.user == spec.user; });
    check_bound(job, whose, qos->limits.grp_tres, all);
    check_count(job, whose, qos->limits.grp_jobs, all.jobs);
    check_bound(job, whose + " per user", qos->limits.max_tres_per_user, of_user);
    check_count(job, whose + " per user", qos->limits.max_jobs_per_user, of_user.jobs);
    check_bound(job, whose + " per job", qos->limits.max_tres_per_job, own);
  }
  for (const auto& [name, account] : tables_.accounts) {
    if (!below(spec.account, name))
      continue;
    const InUse all = sum([&, &name = name](const JobSpec& s) { return below(s.account, name); });
    check_bound(job, "account " + name, account->limits.grp_tres, all);
    check_count(job, "account " + name, account->limits.grp_jobs, all.jobs);
    check_bound(job, "account " + name + " per job", account->limits.max_tres_per_job, own);
  }
  const User* user = tables_.user(spec.user);
  for (const auto& [name, association] : tables_.associations) {
    if (!user || association->user != user->meta.name || association->account != spec.account.get())
      continue;
    const InUse all = sum([&](const JobSpec& s) { return s.account == spec.account && s.user == spec.user; });
    check_bound(job, "association " + name, association->limits.grp_tres, all);
    check_count(job, "association " + name, association->limits.max_jobs, all.jobs);
  }
}

std::map<std::string, std::int64_t> BoundsChecker::licences_of(const JobSpec& spec) {
  std::map<std::string, std::int64_t> out;
  if (spec.licenses.empty())
    return out;
  for (const std::string& part : split(spec.licenses, ',')) {
    const auto colon = part.find(':');
    out[part.substr(0, colon)] += colon == std::string::npos ? 1 : std::atoll(part.c_str() + colon + 1);
  }
  return out;
}

void BoundsChecker::check_licences(const Job& job) {
  for (const auto& [name, count] : licences_of(*job.spec)) {
    const Licence* licence = tables_.licence(name);
    std::int64_t all = 0;
    for (const auto& [id, other] : tables_.jobs)
      if (other->allocation)
        if (const auto theirs = licences_of(*other->spec); theirs.contains(name))
          all += theirs.at(name);
    if (!licence || all > licence->total)
      complain(job, format("with it {} of licence {} are held, there are {}", all, name, licence ? licence->total : 0));
  }
}

bool BoundsChecker::lets_in(const Reservation& r, const JobSpec& spec) const {
  const User* user = tables_.user(spec.user);
  const bool by_account =
      std::any_of(r.accounts.begin(), r.accounts.end(), [&](const std::string& a) { return below(spec.account, a); });
  return (r.users.empty() && r.accounts.empty()) || (user && names(r.users, user->meta.name)) || by_account;
}

// The first reservation that it names, that lets it in and that is in force then; null: there is none.
const Reservation* BoundsChecker::own_reservation(const JobSpec& spec, std::int64_t at) const {
  if (spec.reservation.empty())
    return nullptr;
  for (const std::string& name : split(spec.reservation, ','))
    if (const Reservation* r = tables_.reservation(name); r && lets_in(*r, spec))
      if (r->start.us <= at && at < r->start.us + r->duration.us)
        return r;
  return nullptr;
}

// It may run on its new nodes up to its limit, or to the end of its reservation, without being in the way of those for
// whom they are kept.
void BoundsChecker::check_reservations(const Job& job, const Allocation* before) {
  const Allocation& allocation = *job.allocation;
  const JobSpec& spec = *job.spec;
  const std::int64_t offset = tables_.cluster ? tables_.cluster->wall_offset.us : 0;
  const std::int64_t from = allocation.granted.us + offset;
  std::int64_t to = before                         ? job.limit_end < kNever ? job.limit_end.us + offset : INT64_MAX
                    : allocation.limit >= kForever ? INT64_MAX
                                                   : from + allocation.limit.us;
  const Reservation* own = own_reservation(spec, from);
  if (own && !own->flex)
    to = std::min(to, own->start.us + own->duration.us);
  if (!spec.reservation.empty() && !own)
    complain(job, format("it starts outside of its reservation {}", spec.reservation));
  in_reservations_ += own != nullptr;
  for (std::size_t i = before ? before->grants.size() : 0; i < allocation.grants.size(); ++i)
    if (const Node* node = tables_.node(allocation.grants[i].node))
      check_reserved(job, node->meta.name, own, from, to);
}

void BoundsChecker::check_reserved(const Job& job, const std::string& node, const Reservation* own, std::int64_t from,
                                   std::int64_t to) {
  if (own && !keeps(*own, node))
    complain(job, format("{} is not in its reservation {}", node, own->meta.name));
  for (const auto& [name, r] : tables_.reservations) {
    if (r.get() == own || !keeps(*r, node) || r->start.us >= to || r->start.us + r->duration.us <= from)
      continue;
    if (own && !r->maint && (r->overlap || own->overlap))
      continue;
    complain(job, format("{} is kept by reservation {}, whose window it runs into", node, name));
  }
}

void BoundsChecker::charge(const Job& job, Instant from, Instant until) {
  if (!job.spec->health_check.empty())
    return;  // the cluster's own work counts against nobody
  if (tables_.accounts.empty()) {
    accounts_from_the_start_ = false;
    return;
  }
  const InUse own = in_use(job);
  Use& use = used_[use_key(job.spec->account, job.spec->user, job.spec->qos)];
  const std::int64_t us = (until - from).us;
  use.cpu_ms += own.cpu * us / 1000;
  use.gpu_ms += own.gpus * us / 1000;
  use.wall_ms += us / 1000;
  ++use.charges;
}

void BoundsChecker::finish() {
  if (!accounts_from_the_start_ || tables_.accounts.empty())
    return;
  std::map<std::string, Use> charged;
  for (const auto& [name, usage] : tables_.usages) {
    Use& use = charged[use_key(usage->account, usage->user, usage->qos)];
    use.cpu_ms += usage->spent.cpu;
    use.gpu_ms += usage->spent.gpus;
    use.wall_ms += usage->wall_ms;
  }
  for (const auto& [key, use] : used_) {
    const Use& there = charged[key];
    const auto look = [&, &key = key, &use = use](const char* what, std::int64_t is, std::int64_t should_be) {
      if (std::abs(is - should_be) > 2 * use.charges)
        verdict_.fail(format("{} are charged {} {}, their jobs held {}", key, is, what, should_be));
    };
    look("cpu ms", there.cpu_ms, use.cpu_ms);
    look("GPU ms", there.gpu_ms, use.gpu_ms);
    look("ms of wall time", there.wall_ms, use.wall_ms);
  }
  for (const auto& [key, use] : charged)
    if (!used_.contains(key))
      verdict_.fail(format("{} are charged for nothing", key));
}

}  // namespace lockstep::sim
