#include "simulate/chaos/admin.h"

#include "model/job.h"
#include "simulate/chaos/world.h"

namespace lockstep::sim {

namespace {

const std::vector<std::string> kAccounts{"lab", "physics", "biology"};  // the first is above the others

Tables const& tables_of(const World& world) { return world.controller.state().tables(); }

}  // namespace

// No amount is bounded at two levels: which of them goes before is for tests of the rules.
Limits ChaosAdmin::random_limits(Kind of) {
  Rng& rng = world_.rng;
  Limits limits;
  const auto some = [&](std::int64_t& bound, std::int64_t low, std::int64_t high) {
    if (rng.chance(0.5))
      bound = rng.between(low, high);
  };
  if (of == Kind::kQos) {
    some(limits.grp_tres.cpu, 100, 500);
    some(limits.max_tres_per_user.cpu, 64, 300);
    if (world_.settings.seed % 2 == 0)
      some(limits.max_jobs_per_user, 3, 12);
    some(limits.max_tres_per_job.nodes, 2, 6);
    if (world_.settings.seed % 3 == 0)
      some(limits.grp_wall_mins, 5, 120);
  } else if (of == Kind::kAccount) {
    some(limits.grp_tres.gpus, 48, 150);
    some(limits.grp_jobs, 6, 30);
    some(limits.grp_tres.nodes, 16, 60);
    if (world_.settings.seed % 3 == 0)
      some(limits.grp_tres_mins.gpus, 100, 2000);
  } else if (world_.settings.seed % 2 == 1) {
    some(limits.max_jobs, 3, 20);
  }
  return limits;
}

std::optional<CommandBody> ChaosAdmin::setup(int step) {
  if (step == 0) {
    Policy policy;
    policy.half_life = {};  // so that what was used can be counted exactly
    policy.calc_period = seconds(20);
    return PutPolicy{policy};
  }
  if (step <= 3) {
    Account account;
    account.meta.name = kAccounts[static_cast<std::size_t>(step - 1)];
    account.parent = step == 1 ? "" : kAccounts[0];
    account.shares = static_cast<std::uint32_t>(world_.rng.between(1, 3));
    account.limits = random_limits(Kind::kAccount);
    return PutAccount{account};
  }
  if (step <= 7) {
    Association association;
    association.user = format("user{}", step % 2);
    association.account = kAccounts[static_cast<std::size_t>(1 + (step - 4) / 2)];
    association.limits = random_limits(Kind::kAssociation);
    return PutAssociation{association};
  }
  if (step == 8) {
    Qos qos;
    qos.meta.name = "bounded";
    qos.limits = random_limits(Kind::kQos);
    return PutQos{qos};
  }
  if (step == 9) {
    Licence licence;
    licence.meta.name = "cad";
    licence.total = world_.rng.between(1, 4);
    return PutLicence{licence};
  }
  return std::nullopt;
}

CommandBody ChaosAdmin::new_reservation() {
  Rng& rng = world_.rng;
  Reservation r;
  r.meta.name = format("r{}", ++reservations_);
  const std::int64_t offset = tables_of(world_).cluster ? tables_of(world_).cluster->wall_offset.us : 0;
  if (rng.chance(0.7))
    r.start = WallTime{world_.timeline.now().us + offset + rng.between(-5, 90) * 1'000'000};
  r.duration = seconds(rng.between(10, 120));
  if (rng.chance(0.5)) {
    r.node_count = static_cast<std::uint32_t>(rng.between(1, 6));
  } else {
    const std::int64_t first = rng.between(1, static_cast<std::int64_t>(world_.nodes.size()) - 4);
    for (std::int64_t n = first; n < first + rng.between(1, 4); ++n) r.nodes.push_back(format("n{}", n));
    r.spec_nodes = true;
  }
  r.maint = rng.chance(0.15);
  r.overlap = rng.chance(0.3);
  r.ignore_jobs = rng.chance(0.6);
  r.replace_down = rng.chance(0.2);
  r.no_hold_jobs_after = world_.settings.seed % 3 == 1;
  if (rng.chance(0.6))
    r.users = {rng.chance(0.5) ? "user0" : "user1"};
  else
    r.accounts = {kAccounts[rng.below(kAccounts.size())]};
  return PutReservation{r};
}

// Other limits for one of the records, if the dice say so for any.
template <class Put, class Records>
std::optional<CommandBody> ChaosAdmin::limit_anew(const Records& records, Kind kind) {
  for (const auto& [name, record] : records)
    if (world_.rng.chance(0.4)) {
      auto next = *record;
      next.limits = random_limits(kind);
      return Put{next};
    }
  return std::nullopt;
}

std::optional<CommandBody> ChaosAdmin::change() {
  Rng& rng = world_.rng;
  const Tables& tables = tables_of(world_);
  if (tables.accounts.empty())
    return std::nullopt;
  const std::uint64_t dice = rng.below(100);
  if (dice < 45 && tables.reservations.size() < 6)
    return new_reservation();
  if (dice < 65) {
    for (const auto& [name, r] : tables.reservations)
      if (rng.chance(0.4))
        return RemoveReservation{name};
    return std::nullopt;
  }
  if (dice < 80)
    return limit_anew<PutAccount>(tables.accounts, Kind::kAccount);
  if (dice < 90)
    return limit_anew<PutQos>(tables.qos, Kind::kQos);
  if (dice < 95)
    return limit_anew<PutAssociation>(tables.associations, Kind::kAssociation);
  Licence licence;
  licence.meta.name = "cad";
  licence.total = rng.between(1, 4);
  return PutLicence{licence};
}

void ChaosAdmin::dress(JobSpec& spec) {
  Rng& rng = world_.rng;
  const Tables& tables = tables_of(world_);
  if (tables.accounts.empty())
    return;
  if (rng.chance(0.4))
    spec.account = kAccounts[1 + rng.below(2)];
  if (spec.qos.empty() && rng.chance(0.4))
    spec.qos = "bounded";
  if (rng.chance(0.08))
    spec.licenses = rng.chance(0.5) ? "cad" : "cad:2";
  if (!tables.reservations.empty() && rng.chance(0.2)) {
    auto it = tables.reservations.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(rng.below(tables.reservations.size())));
    spec.reservation = it->first;
  }
  if (spec.time_limit.us > 0 && rng.chance(0.1))
    spec.time_min = seconds(5);
}

std::vector<CommandBody> ChaosAdmin::settle() const {
  std::vector<CommandBody> out;
  const Tables& tables = tables_of(world_);
  for (const auto& [name, r] : tables.reservations) out.push_back(RemoveReservation{name});
  const auto freed = [](auto record) {
    record.limits = {};
    return record;
  };
  for (const auto& [name, account] : tables.accounts)
    if (!(account->limits == Limits{}))
      out.push_back(PutAccount{freed(*account)});
  for (const auto& [name, qos] : tables.qos)
    if (!(qos->limits == Limits{}))
      out.push_back(PutQos{freed(*qos)});
  for (const auto& [name, association] : tables.associations)
    if (!(association->limits == Limits{}))
      out.push_back(PutAssociation{freed(*association)});
  Licence plenty;
  plenty.meta.name = "cad";
  plenty.total = 100;
  if (const Licence* licence = tables.licence("cad"); licence && licence->total < 100)
    out.push_back(PutLicence{plenty});
  // What they wait for is gone.
  for (const auto& [id, job] : tables.jobs)
    if (job->state == JobState::kPending && !job->spec->reservation.empty() &&
        !tables.reservation(job->spec->reservation))
      out.push_back(CancelJob{.target = {.job = id}});
  return out;
}

}  // namespace lockstep::sim
