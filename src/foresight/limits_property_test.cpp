// Every kind of limit at every moment, core and planner together: random jobs, arrays and changes under random limits
// of accounts, associations, QOS of jobs and partitions, and licences. At each start the limits that bind the job are
// worked out once more, from the grants of what runs and without any of the code that enforces them.
#include <functional>

#include "base/rng.h"
#include "foresight/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

constexpr std::int64_t kNone = kNoLimit;

// What a set of running jobs holds, counted from their grants.
struct Held {
  std::int64_t jobs = 0, cpu = 0, memory_mb = 0, gpus = 0;
  std::set<NodeId> nodes;
  void add(const Job& job) {
    ++jobs;
    for (const Grant& grant : job.allocation->grants) {
      cpu += grant.cores.count();
      memory_mb += grant.memory_mb;
      gpus += grant.devices.count();
      nodes.insert(grant.node);
    }
  }
};

class LimitsWorld {
 public:
  explicit LimitsWorld(std::uint64_t seed) : rng_(seed), w_(3 + seed % 3) {
    for (const char* name : {"normal", "fast", "part"}) put_qos(name);
    Partition side;
    side.meta.name = "side";
    side.nodes = {"ALL"};
    if (rng_.chance(0.7))
      side.qos = "part";
    w_.must(PutPartition{side});
    if (rng_.chance(0.3)) {
      Partition main = *w_.state.tables().default_partition();
      main.qos = "part";
      w_.must(PutPartition{main});
    }
    put_account("top", "");
    put_account("low", "top");
    for (const char* user : {"alice", "bob"})
      for (const char* account : {"top", "low"}) put_association(user, account, "");
    if (rng_.chance(0.3))
      put_association("alice", "low", "side");
    Licence licence;
    licence.meta.name = "tool";
    licence.total = 3;
    w_.must(PutLicence{licence});
    note();
  }

  void step() {
    switch (rng_.below(14)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3:
      case 4:
      case 5:
      case 6: plan(); break;
      case 7: w_.must(ApplyPlan{w_.plan()}); break;  // from somebody who knows of no limits
      case 8: w_.obey(); break;
      case 9:
      case 10: end_something(); break;
      case 11: (void)w_.run(CancelJob{{some_job(), {}}, 0, {}}); break;
      case 12: disturb(); break;
      case 13: w_.pass(seconds(rng_.between(0, 40))); break;
    }
    note();
  }
  void restart() {
    ClusterState fresh(CoreSettings{});
    fresh.restore(w_.state.tables().snapshot());
    w_.state = std::move(fresh);
    w_.must(StartEpoch{"test"});
    planner_ = Planner();
    planner_.observe(w_.state.tables().snapshot());
    known_ = w_.history.size();
    looked_ = w_.history.size();
  }
  std::uint64_t starts = 0, tight = 0;

 private:
  std::int64_t perhaps(std::int64_t low, std::int64_t high) {
    return rng_.chance(0.2) ? rng_.between(low, high) : kNone;
  }
  void some_tres(TresLimit& limit) {
    limit.cpu = perhaps(8, 60);
    limit.gpus = perhaps(2, 12);
    limit.nodes = perhaps(1, 3);
    limit.memory_mb = perhaps(3000, 15'000);
  }
  Limits some_group_limits() {
    Limits limits;
    some_tres(limits.grp_tres);
    limits.grp_jobs = perhaps(2, 8);
    limits.grp_submit_jobs = perhaps(6, 30);
    return limits;
  }
  void put_qos(const char* name) {
    Qos qos;
    qos.meta.name = name;
    qos.limits = some_group_limits();
    some_tres(qos.limits.max_tres_per_user);
    some_tres(qos.limits.max_tres_per_account);
    qos.limits.max_jobs_per_user = perhaps(1, 5);
    qos.limits.max_jobs_per_account = perhaps(1, 6);
    qos.limits.max_submit_jobs_per_user = perhaps(4, 20);
    w_.must(PutQos{qos});
  }
  void put_account(const char* name, const char* parent) {
    Account account;
    account.meta.name = name;
    account.parent = parent;
    account.limits = some_group_limits();
    w_.must(PutAccount{account});
  }
  void put_association(const char* user, const char* where, const char* partition) {
    Association a;
    a.user = user;
    a.account = where;
    a.partition = partition;
    a.limits = some_group_limits();
    a.limits.max_jobs = rng_.chance(0.5) ? rng_.between(1, 6) : kNone;
    a.limits.max_submit_jobs = perhaps(3, 20);
    w_.must(PutAssociation{a});
  }

  JobId some_job() {
    const auto& jobs = w_.state.tables().jobs;
    if (jobs.empty())
      return JobId(1);
    auto it = jobs.begin();
    std::advance(it, rng_.below(jobs.size()));
    return it->first;
  }

  void submit() {
    JobSpec spec =
        World::batch(static_cast<std::uint32_t>(rng_.between(1, 2)), static_cast<std::uint32_t>(rng_.below(3)));
    spec.user = rng_.chance(0.6) ? World::kAlice : World::kBob;
    if (rng_.chance(0.8))
      spec.account = rng_.chance(0.5) ? "top" : "low";
    if (rng_.chance(0.6))
      spec.qos = rng_.chance(0.5) ? "fast" : "normal";
    if (rng_.chance(0.5))
      spec.partitions = {"side"};
    if (rng_.chance(0.2))
      spec.licenses = "tool:" + std::to_string(rng_.between(1, 2));
    spec.groups[0].per_task.cores = static_cast<std::uint32_t>(rng_.between(1, 6));
    if (rng_.chance(0.1))
      spec.groups[0].sharing = Sharing::kExclusive;
    spec.time_limit = minutes(rng_.between(1, 10));
    SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
    if (rng_.chance(0.5))
      ask.array = ArrayAsk{IntervalSet(0, static_cast<std::uint32_t>(rng_.below(12))),
                           static_cast<std::uint32_t>(rng_.below(5)), 1};
    const auto outcome = w_.run(std::move(ask));
    if (outcome.ok())
      check_submitted(w_.job(outcome->answer.job));
  }
  void end_something() {
    const Job* job = w_.state.tables().job(some_job());
    if (!job || !job->allocation)
      return;
    const ExitStatus exit{static_cast<std::int32_t>(rng_.below(2)), 0, false};
    (void)w_.report(w_.first_node(job->id), job->id, ScriptEnded{exit});
    if (rng_.chance(0.7))
      w_.obey();
  }
  void disturb() {
    const JobTarget target{some_job(), {}};
    UpdateJob u;
    u.target = target;
    switch (rng_.below(9)) {
      case 0: (void)w_.run(RequeueJob{target, false}); break;
      case 1: (void)w_.run(SuspendJob{target}); break;
      case 2: (void)w_.run(ResumeJob{target}); break;
      case 3: u.qos = rng_.chance(0.5) ? "fast" : "normal"; break;
      case 4: u.account = rng_.chance(0.5) ? "top" : "low"; break;
      case 5: u.partitions = std::vector<std::string>{rng_.chance(0.5) ? "side" : "main"}; break;
      case 6: w_.reboot(1 + static_cast<std::uint32_t>(rng_.below(3))); break;
      case 7: put_association(rng_.chance(0.5) ? "alice" : "bob", "low", ""); break;
      case 8: {
        Partition side = *w_.state.tables().partition("side");
        side.qos = rng_.chance(0.5) ? "part" : "";
        w_.must(PutPartition{side});
        break;
      }
    }
    if (u.qos || u.account || u.partitions)
      (void)w_.run(u);
  }

  // The real planner, up to date or some commands behind.
  void plan() {
    planner_.observe(std::span(w_.history).subspan(known_));
    known_ = w_.history.size();
    for (int i = 0; i < 20 && !planner_.idle(); ++i) {
      PlanChunk chunk = planner_.plan(w_.now, {});
      if (!chunk.empty()) {
        if (rng_.chance(0.1))
          w_.obey();
        w_.must(ApplyPlan{std::move(chunk)});
        planner_.observe(std::span(w_.history).subspan(known_));
        known_ = w_.history.size();
      }
      planner_.settled();
    }
  }

  // Follows the changes one by one: what ran at the moment of each start.
  void note() {
    for (; looked_ < w_.history.size(); ++looked_) {
      const auto* record = std::get_if<Ref<Job>>(&w_.history[looked_].record);
      if (!record)
        continue;
      const Job& job = **record;
      const bool holds = !w_.history[looked_].removed && holds_allocation(job.state);
      const bool held = running_.contains(job.id);
      if (holds)
        running_[job.id] = *record;
      else
        running_.erase(job.id);
      if (holds && !held)
        check_started(job);
    }
  }

  const Tables& tables() const { return w_.state.tables(); }
  std::string partition_qos(const std::string& name) const {
    const Partition* partition = name.empty() ? tables().default_partition() : tables().partition(name);
    return partition ? partition->qos : "";
  }
  // QOS that bind the job, the strongest first.
  std::vector<const Qos*> qos_of(const JobSpec& spec, const std::string& partition) const {
    std::vector<const Qos*> out;
    if (const Qos* of = tables().qos_named(partition_qos(partition)))
      out.push_back(of);
    if (const Qos* own = tables().qos_named(spec.qos); own && (out.empty() || out[0] != own))
      out.push_back(own);
    return out;
  }
  bool is_under(const JobSpec& spec, const std::string& partition, const Qos* qos) const {
    const auto all = qos_of(spec, partition);
    return std::find(all.begin(), all.end(), qos) != all.end();
  }
  bool is_in(const JobSpec& spec, const Account* account) const {
    const auto chain = tables().chain_of(spec.account);
    return std::find(chain.begin(), chain.end(), account) != chain.end();
  }

  using Wanted = std::function<bool(const JobSpec&, const std::string& partition)>;
  Held held_by(const Wanted& wanted) const {
    Held out;
    for (const auto& [id, job] : running_)
      if (wanted(*job->spec, job->allocation->partition))
        out.add(*job);
    return out;
  }
  void at_most(std::int64_t bound, std::int64_t is, const Job& job, const std::string& what) {
    if (bound == kNone)
      return;
    EXPECT_LE(is, bound) << "job " << job.id.value << " of user " << job.spec->user.value << " in "
                         << job.spec->account.c_str() << " under " << job.spec->qos.c_str() << ": " << what;
    tight += is == bound;
  }
  // One limit of amounts at one level; names that were bounded before are not its business.
  void check_tres(const TresLimit& limit, const Held& held, TresLimit& hidden, bool hides, const Job& job,
                  const std::string& what) {
    const auto one = [&](std::int64_t TresLimit::*field, std::int64_t is, bool asked, const char* name) {
      if (hidden.*field == kNone && asked)
        at_most(limit.*field, is, job, what + " " + name);
      if (hides && limit.*field != kNone)
        hidden.*field = limit.*field;
    };
    Held own;
    own.add(job);
    one(&TresLimit::cpu, held.cpu, own.cpu > 0, "cpu");
    one(&TresLimit::memory_mb, held.memory_mb, own.memory_mb > 0, "mem");
    one(&TresLimit::gpus, held.gpus, own.gpus > 0, "gpus");
    // A job that shares nodes its holder has already adds none.
    std::set<NodeId> others;
    for (const auto& [id, other] : running_)
      if (id != job.id)
        for (const Grant& grant : other->allocation->grants) others.insert(grant.node);
    const bool adds = !std::includes(others.begin(), others.end(), own.nodes.begin(), own.nodes.end());
    one(&TresLimit::nodes, static_cast<std::int64_t>(held.nodes.size()), adds, "node");
  }

  void check_started(const Job& job) {
    ++starts;
    const JobSpec& spec = *job.spec;
    const std::string& partition = job.allocation->partition;
    TresLimit group, user, account;
    bool group_jobs = false, user_jobs = false, account_jobs = false;
    for (const Qos* qos : qos_of(spec, partition)) {
      const Limits& l = qos->limits;
      const auto here = [&](const JobSpec& s, const std::string& p) { return is_under(s, p, qos); };
      const auto mine = [&](const JobSpec& s, const std::string& p) { return here(s, p) && s.user == spec.user; };
      const auto ours = [&](const JobSpec& s, const std::string& p) { return here(s, p) && s.account == spec.account; };
      const std::string& name = qos->meta.name;
      check_tres(l.grp_tres, held_by(here), group, true, job, name + " GrpTRES");
      check_tres(l.max_tres_per_user, held_by(mine), user, true, job, name + " MaxTRESPU");
      check_tres(l.max_tres_per_account, held_by(ours), account, true, job, name + " MaxTRESPA");
      const auto number = [&](bool& bound, std::int64_t limit, const Wanted& who, const char* what) {
        if (!bound)
          at_most(limit, held_by(who).jobs, job, name + what);
        bound = bound || limit != kNone;
      };
      number(group_jobs, l.grp_jobs, here, " GrpJobs");
      number(user_jobs, l.max_jobs_per_user, mine, " MaxJobsPU");
      number(account_jobs, l.max_jobs_per_account, ours, " MaxJobsPA");
    }
    const Association* a = tables().association(spec.account, spec.user, partition);
    const auto of_mine = [&](const JobSpec& s, const std::string& p) {
      return s.user == spec.user && s.account == spec.account && tables().association(s.account, s.user, p) == a;
    };
    if (a) {
      check_tres(a->limits.grp_tres, held_by(of_mine), group, false, job, "association GrpTRES");
      if (!group_jobs)
        at_most(a->limits.grp_jobs, held_by(of_mine).jobs, job, "association GrpJobs");
      if (!user_jobs)
        at_most(a->limits.max_jobs, held_by(of_mine).jobs, job, "association MaxJobs");
    }
    for (const Account* up : tables().chain_of(spec.account)) {
      const auto below = [&](const JobSpec& s, const std::string&) { return is_in(s, up); };
      check_tres(up->limits.grp_tres, held_by(below), group, false, job, up->meta.name + " GrpTRES");
      if (!group_jobs)
        at_most(up->limits.grp_jobs, held_by(below).jobs, job, up->meta.name + " GrpJobs");
    }
    std::int64_t keys = 0;
    for (const auto& [id, other] : running_)
      if (!other->spec->licenses.empty())
        keys += other->spec->licenses == "tool:2" ? 2 : 1;
    if (!spec.licenses.empty())
      at_most(3, keys, job, "licences");
  }

  void check_submitted(const Job& job) {
    const JobSpec& spec = *job.spec;
    const auto first = [](const JobSpec& s) { return s.partitions.empty() ? std::string() : s.partitions.front(); };
    const auto count = [&](const Wanted& wanted) {
      std::int64_t n = 0;
      for (const auto& [id, other] : tables().jobs)
        if (!is_final(other->state) && wanted(*other->spec, first(*other->spec)))
          n += other->array ? static_cast<std::int64_t>(other->array->waiting.size()) : 1;
      return n;
    };
    bool group_jobs = false, user_jobs = false;
    for (const Qos* qos : qos_of(spec, first(spec))) {
      const auto here = [&](const JobSpec& s, const std::string& p) { return is_under(s, p, qos); };
      const auto mine = [&](const JobSpec& s, const std::string& p) { return here(s, p) && s.user == spec.user; };
      if (!std::exchange(group_jobs, group_jobs || qos->limits.grp_submit_jobs != kNone))
        at_most(qos->limits.grp_submit_jobs, count(here), job, qos->meta.name + " GrpSubmitJobs");
      if (!std::exchange(user_jobs, user_jobs || qos->limits.max_submit_jobs_per_user != kNone))
        at_most(qos->limits.max_submit_jobs_per_user, count(mine), job, qos->meta.name + " MaxSubmitJobsPU");
    }
    if (!group_jobs)
      for (const Account* up : tables().chain_of(spec.account))
        at_most(up->limits.grp_submit_jobs, count([&](const JobSpec& s, const std::string&) { return is_in(s, up); }),
                job, up->meta.name + " GrpSubmitJobs");
  }

  Rng rng_;
  World w_;
  Planner planner_;
  std::size_t known_ = 0, looked_ = 0;  // of the history
  std::map<JobId, Ref<Job>> running_;
};

TEST(LimitsProperty, NoLimitIsEverPassed) {
  std::uint64_t starts = 0, tight = 0;
  for (std::uint64_t seed = 1; seed <= 120 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    LimitsWorld world(seed);
    for (int i = 0; i < 250 && !testing::Test::HasFailure(); ++i) {
      world.step();
      if (i % 83 == 82)
        world.restart();
    }
    starts += world.starts;
    tight += world.tight;
  }
  EXPECT_GT(starts, 1000u);
  EXPECT_GT(tight, 1000u);  // the limits do bind
}

}  // namespace
}  // namespace lockstep
