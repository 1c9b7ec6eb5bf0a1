// Random commands, sensible and senseless, over many seeds: no invariant breaks, an error changes nothing, a reader of
// the changes has the same tables, and a restart at any moment leads to the same future.
#include "base/rng.h"
#include "core/testing.h"
#include "model/action.h"
#include "model/job.h"
#include "rules/awaited.h"

namespace lockstep {
namespace {

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : rng_(seed), w_(4 + seed % 3, settings()), nodes_(4 + seed % 3) {}

  void step() {
    w_.wait(millis(rng_.between(0, 3000)));
    switch (rng_.below(32)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3:
      case 4:
      case 5: plan(); break;
      case 6: plan_nonsense(); break;
      case 7:
      case 8: (void)w_.run(Tick{}); break;
      case 9: w_.obey(); break;
      case 10: obey_some(); break;
      case 11: end_something(); break;
      case 12:
        (void)w_.run(CancelJob{target(), static_cast<std::int32_t>(rng_.chance(0.7) ? 0 : rng_.between(-1, 66)),
                               static_cast<SignalReach>(rng_.below(3))},
                     caller());
        break;
      case 13: (void)w_.run(HoldJob{target(), rng_.chance(0.3)}, caller()); break;
      case 14:
      case 15: (void)w_.run(ReleaseJob{target()}, caller()); break;
      case 16: (void)w_.run(RequeueJob{target(), rng_.chance(0.3)}, caller()); break;
      case 17:
      case 18: update(); break;
      case 19:
        (void)w_.run(EndJob{some_job(), {static_cast<std::int32_t>(rng_.below(3)), 0, false}, rng_.chance(0.3)},
                     caller());
        break;
      case 20: lose(); break;
      case 21: fence_or_boot(); break;
      case 22: step_command(); break;
      case 23: report(); break;
      case 24: report(); break;
      case 25: told_again(); break;
      case 26: (void)w_.run(SetTaskCount{some_job(), 0, static_cast<std::uint32_t>(rng_.below(5))}, caller()); break;
      case 27: node_command(); break;
      case 28: w_.pass(seconds(rng_.between(0, 60))); break;
      case 29: objects(); break;
      case 30:
      case 31: grow(); break;
    }
  }

  // What a restart finds: everything so far, or a snapshot of it.
  void restart() {
    ClusterState fresh(settings());
    if (rng_.chance(0.5))
      fresh.restore(w_.history);
    else
      fresh.restore(w_.state.tables().snapshot());
    check_invariants(fresh);
    same(fresh, w_.state);
    w_.state = std::move(fresh);
    w_.must(StartEpoch{"test"});
    for (std::uint32_t i = 1; i <= nodes_; ++i)  // most agents are back before anything else happens
      if (w_.id(i) && node_awaited(w_.node(i)) && rng_.chance(0.8))
        w_.hello(i);
    w_.actions.clear();
    for (const auto& [id, node] : w_.state.tables().nodes)
      for (const Action& action : reconcile(w_.state, id, {})) w_.actions.push_back(action);
  }

  // Everything can still come to an end: nodes come back, everybody cancels.
  void finish() {
    for (std::uint32_t i = 1; i <= nodes_; ++i) w_.reboot(i);
    w_.obey();
    std::vector<JobId> all;
    for (const auto& [id, job] : w_.state.tables().jobs)
      if (!job->array_job)
        all.push_back(id);
    for (JobId id : all) w_.must(CancelJob{{id, {}}});
    w_.obey();
    for (const auto& [id, job] : w_.state.tables().jobs)
      EXPECT_TRUE(is_final(job->state)) << "job " << id.value << " state " << static_cast<int>(job->state);
    w_.pass(hours(1));
    EXPECT_TRUE(w_.state.tables().jobs.empty());
    EXPECT_TRUE(w_.state.tables().steps.empty());
    EXPECT_TRUE(w_.state.tables().tasks.empty());
    EXPECT_EQ(w_.state.next_timer(), kNever);
  }

  World& world() { return w_; }
  std::uint64_t grown() const { return grown_; }

 private:
  static CoreSettings settings() {
    CoreSettings s;
    s.keep_ended = seconds(40);
    s.requeues_max = 2;
    return s;
  }

  static void same(const ClusterState& a, const ClusterState& b) {
    const auto x = a.tables().snapshot(), y = b.tables().snapshot();
    ASSERT_EQ(x.size(), y.size());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i].record, y[i].record);
    ASSERT_EQ(a.tables().seq, b.tables().seq);
    for (const auto& [id, node] : a.tables().nodes) ASSERT_EQ(a.load(id), b.load(id));
  }

  Caller caller() {
    switch (rng_.below(4)) {
      case 0: return kController;
      case 1: return {World::kBob, false};
      default: return {World::kAlice, false};
    }
  }
  JobId some_job() {
    if (rng_.chance(0.1))
      return JobId(rng_.below(5000));
    const auto& jobs = w_.state.tables().jobs;
    if (jobs.empty())
      return JobId(1);
    auto it = jobs.begin();
    std::advance(it, rng_.below(jobs.size()));
    return it->first;
  }
  JobTarget target() {
    JobTarget t{some_job(), {}};
    if (rng_.chance(0.4)) {
      IntervalSet some;
      for (int i = 0; i < 3; ++i) {
        const auto low = static_cast<std::uint32_t>(rng_.below(14));
        some.insert(low, low + static_cast<std::uint32_t>(rng_.below(3)));
      }
      t.elements = some;
    }
    return t;
  }
  std::uint32_t some_node() { return 1 + static_cast<std::uint32_t>(rng_.below(nodes_)); }

  void submit() {
    JobSpec spec;
    const auto nodes = static_cast<std::uint32_t>(rng_.between(1, 3));
    switch (rng_.below(5)) {
      case 0: spec = World::interactive(nodes); break;
      case 1: spec = World::tasks(nodes * 2, static_cast<RestartRule>(rng_.below(3)), rng_.chance(0.3)); break;
      default: spec = World::batch(nodes, static_cast<std::uint32_t>(rng_.below(9))); break;
    }
    GroupSpec& group = spec.groups[0];
    if (group.launch == Launch::kTasks && rng_.chance(0.6)) {
      group.tasks.min = static_cast<std::uint32_t>(rng_.between(1, 2));
      group.tasks.max = static_cast<std::uint32_t>(rng_.between(4, 40));
      if (rng_.chance(0.2))
        group.tasks_per_node = 2;
    }
    if (rng_.chance(0.3))
      spec.user = World::kBob;
    if (rng_.chance(0.3))
      spec.name = "other";
    spec.requeue = rng_.chance(0.7);
    spec.survive_node_loss = rng_.chance(0.3);
    group.one_failure_restarts_all = rng_.chance(0.5);
    group.restarts_max = static_cast<std::uint32_t>(rng_.below(3));
    if (rng_.chance(0.1))
      group.sharing = Sharing::kExclusive;
    if (rng_.chance(0.4))
      spec.time_limit = seconds(rng_.between(-1, 90));
    if (rng_.chance(0.2))
      spec.signal_ahead = {10, seconds(30), rng_.chance(0.5)};
    if (rng_.chance(0.1))
      spec.begin = WallTime{w_.now.us + rng_.between(-5, 60) * 1'000'000};
    if (rng_.chance(0.1))
      spec.deadline = WallTime{w_.now.us + rng_.between(-5, 120) * 1'000'000};
    spec.hold = rng_.chance(0.1);
    spec.kill_on_invalid_dependency = rng_.chance(0.5);
    spec.dependency_any = rng_.chance(0.3);
    if (rng_.chance(0.4))
      for (std::uint64_t i = rng_.below(3); i > 0; --i)
        spec.dependencies.push_back({static_cast<Dependency::Type>(rng_.below(6)), some_job(),
                                     seconds(rng_.chance(0.3) ? rng_.between(0, 20) : 0)});
    if (rng_.chance(0.03))
      spec.partitions = {"nowhere"};
    if (rng_.chance(0.03))
      group.tasks = {3, 2};
    SubmitJob ask{.spec = std::make_shared<const JobSpec>(spec)};
    if (rng_.chance(0.3)) {
      const auto high = static_cast<std::uint32_t>(rng_.below(12));
      ask.array = ArrayAsk{IntervalSet(0, high), static_cast<std::uint32_t>(rng_.below(4)), 1};
    } else if (group.launch == Launch::kNothing && rng_.chance(0.5)) {
      auto step = std::make_shared<StepSpec>();
      step->argv = {"true"};
      ask.first_step = step;
    }
    (void)w_.run(std::move(ask), rng_.chance(0.1) ? caller() : kController);
  }

  // Elastic jobs often start with less than they could.
  void plan() {
    auto starts = w_.plan();
    for (PlannedStart& start : starts)
      if (const GroupSpec& group = w_.job(start.job).spec->groups[0];
          group.tasks.min < group.tasks.max && rng_.chance(0.7))
        start.grants.resize(1);
    w_.must(ApplyPlan{starts});
  }

  void plan_nonsense() {
    auto starts = w_.plan();
    if (starts.empty())
      return;
    PlannedStart& start = starts[rng_.below(starts.size())];
    switch (rng_.below(8)) {
      case 0: start.grants.clear(); break;
      case 1: start.grants.pop_back(); break;
      case 2: start.grants.push_back(start.grants[0]); break;
      case 3: start.grants[0].node = NodeId(99); break;
      case 4: start.job = some_job(); break;
      case 5: start.grants[0].group = 9; break;
      case 6: start.partition = "nowhere"; break;
      case 7: start.is_element = !start.is_element; break;
    }
    const auto copy = starts;  // a doubled plan is dropped where it no longer fits
    w_.must(ApplyPlan{starts});
    w_.must(ApplyPlan{copy});
  }

  // Running elastic jobs get a task or two more somewhere, or what they must not get.
  void grow() {
    if (rng_.chance(0.5)) {
      plan();
      w_.obey();
    }
    Plan more;
    for (const auto& [id, job] : w_.state.tables().jobs) {
      if (job->state != JobState::kRunning || job->spec->groups[0].launch != Launch::kTasks || rng_.chance(0.3))
        continue;
      PlannedGrowth growth{.job = id, .read = job->meta.seq, .grants = {}};
      for (std::uint64_t n = rng_.below(3); n > 0; --n) {
        const Node& node = w_.node(some_node());
        auto grant = choose_grant(node, w_.state.load(node.id), job->spec->groups[0], 0, 1, 0);
        if (grant)
          growth.grants.push_back(std::move(*grant));
      }
      if (!growth.grants.empty() && rng_.chance(0.1))
        growth.grants[0].cores.set(static_cast<std::uint32_t>(rng_.below(16)));
      more.growths.push_back(std::move(growth));
    }
    w_.must(ApplyPlan{more});
    for (const Event& event : w_.events) grown_ += event.what == "Grown";
    w_.events.clear();
  }

  void obey_some() {
    std::deque<Action> kept, now;
    for (const Action& action : w_.actions) (rng_.chance(0.5) ? now : kept).push_back(action);
    w_.actions = std::move(now);
    if (rng_.chance(0.2))
      kept.clear();  // lost on the way
    w_.obey();
    for (const Action& action : kept) w_.actions.push_back(action);
  }

  void end_something() {
    const Job* job = w_.state.tables().job(some_job());
    if (!job || !job->allocation)
      return;
    const ExitStatus exit{static_cast<std::int32_t>(rng_.below(2)), rng_.chance(0.1) ? 9 : 0, rng_.chance(0.05)};
    const std::uint32_t node = w_.first_node(job->id);
    if (job->spec->groups[0].launch == Launch::kTasks)
      (void)w_.report(node, job->id,
                      TaskEnded{0, static_cast<std::uint32_t>(rng_.below(4)),
                                static_cast<std::uint32_t>(rng_.between(1, 3)), exit});
    else if (job->spec->groups[0].launch == Launch::kNothing)
      (void)w_.report(node, job->id, StepEnded{static_cast<StepNo>(rng_.below(2)), {{0, exit}}});
    else
      (void)w_.report(node, job->id, ScriptEnded{exit});
  }

  void report() {
    const JobId id = some_job();
    const Job* job = w_.state.tables().job(id);
    const std::uint32_t node = some_node();
    const auto attempt = static_cast<AttemptNo>(job && rng_.chance(0.8) ? job->attempt : rng_.below(4));
    const std::string boot = rng_.chance(0.8) ? w_.boot(node) : "n1-boot0";
    ReportBody body;
    switch (rng_.below(9)) {
      case 0: body = AttemptStarted{}; break;
      case 1: body = LaunchFailed{"why"}; break;
      case 2: body = ScriptEnded{{1, 0, false}}; break;
      case 3: body = MemberStopped{rng_.chance(0.5)}; break;
      case 4: body = StepStarted{static_cast<StepNo>(rng_.between(-3, 3))}; break;
      case 5: body = StepEnded{static_cast<StepNo>(rng_.between(-3, 3)), {{7, {1, 0, false}}}}; break;
      case 6: body = TaskStarted{0, static_cast<std::uint32_t>(rng_.below(5)), 1}; break;
      case 7: body = TaskReady{static_cast<std::uint16_t>(rng_.below(3)), 0, 1, true}; break;
      case 8: body = TaskEnded{0, static_cast<std::uint32_t>(rng_.below(5)), 1, {1, 0, false}}; break;
    }
    (void)w_.run(AgentReport{w_.id(node), boot, id, attempt, body});
  }

  void update() {
    UpdateJob u;
    u.target = target();
    if (rng_.chance(0.3))
      u.time_limit = seconds(rng_.between(-2, 200));
    if (rng_.chance(0.2))
      u.name = "renamed";
    if (rng_.chance(0.2))
      u.throttle = static_cast<std::uint32_t>(rng_.below(4));
    if (rng_.chance(0.2))
      u.dependencies = std::vector<Dependency>{{static_cast<Dependency::Type>(rng_.below(6)), some_job(), {}}};
    if (rng_.chance(0.2))
      u.nice = static_cast<std::int32_t>(rng_.between(-100, 100));
    if (rng_.chance(0.1))
      u.begin = WallTime{w_.now.us + 10'000'000};
    if (rng_.chance(0.1))
      u.deadline = WallTime{w_.now.us + rng_.between(0, 100) * 1'000'000};
    if (rng_.chance(0.1))
      u.nodes = CountRange{1, 2};
    if (rng_.chance(0.1))
      u.if_seq = rng_.below(100);
    (void)w_.run(u, caller());
  }

  void lose() {
    const std::uint32_t node = some_node();
    if (rng_.chance(0.7))
      w_.silent.insert(node);
    (void)w_.run(NodeLost{rng_.chance(0.9) ? w_.id(node) : NodeId(50)});
  }
  void fence_or_boot() {
    const std::uint32_t node = some_node();
    if (rng_.chance(0.3)) {
      w_.silent.insert(node);
      w_.fence(node);
    } else if (rng_.chance(0.5)) {
      w_.reboot(node);
    } else if (w_.node(node).boot_id == w_.boot(node)) {
      w_.silent.erase(node);
      w_.hello(node);
    }
  }
  void node_command() {
    UpdateNode u{World::name_of(some_node()), rng_.chance(0.3), {}, {}, {}};
    (void)w_.run(u, rng_.chance(0.2) ? caller() : kController);
    (void)w_.run(SetWallOffset{seconds(rng_.between(-30, 30))});
    if (rng_.chance(0.1))
      (void)w_.run(RemoveNode{"nowhere"});
  }
  void step_command() {
    auto step = std::make_shared<StepSpec>();
    step->argv = {"true"};
    step->tasks = static_cast<std::uint32_t>(rng_.below(4));
    step->overlap = rng_.chance(0.3);
    step->exact = rng_.chance(0.3);
    if (rng_.chance(0.6))
      (void)w_.run(CreateStep{some_job(), step}, caller());
    else
      (void)w_.run(SignalStep{some_job(), static_cast<StepNo>(rng_.below(3)), rng_.chance(0.5) ? 0 : 10}, caller());
  }
  void told_again() {
    for (std::uint32_t i = 1; i <= nodes_; ++i) {
      std::vector<Holding> held;
      if (rng_.chance(0.7))
        for (const auto& [id, job] : w_.state.tables().jobs)
          if (job->allocation && rng_.chance(0.7))
            held.push_back({id, job->attempt, false, {0}, {{0, 0, 1}}});
      for (const Action& action : reconcile(w_.state, w_.id(i), held)) w_.actions.push_back(action);
    }
  }
  void objects() {
    Object object;
    object.type = "apps/v1/Deployment";
    object.meta.name = "web" + std::to_string(rng_.below(3));
    object.body = "{}";
    if (rng_.chance(0.2)) {
      auto extra = std::make_shared<MetaExtra>();
      extra->finalizers = {"x"};
      object.meta.extra = extra;
    }
    switch (rng_.below(4)) {
      case 0: (void)w_.run(PutObject{object, rng_.below(3)}); break;
      case 1: (void)w_.run(RemoveObject{object.type, "", object.meta.name, 0}); break;
      default: {
        SubmitJob ask{.spec = std::make_shared<const JobSpec>(World::tasks(1, RestartRule::kAlways, true))};
        ask.objects = {object};
        (void)w_.run(ask);
      }
    }
  }

  Rng rng_;
  World w_;
  std::uint32_t nodes_;
  std::uint64_t grown_ = 0;
};

TEST(Random, NothingBreaks) {
  std::uint64_t grown = 0;
  for (std::uint64_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Chaos chaos(seed);
    for (int i = 0; i < 400; ++i) {
      chaos.step();
      if (i % 97 == 96)
        chaos.restart();
      if (testing::Test::HasFailure())
        break;
    }
    chaos.finish();
    grown += chaos.grown();
  }
  EXPECT_GT(grown, 5u);
}

TEST(Random, SameSeedSameFuture) {
  const auto run = [](std::uint64_t seed) {
    Chaos chaos(seed);
    for (int i = 0; i < 300; ++i) chaos.step();
    return chaos.world().history;
  };
  const auto a = run(7), b = run(7);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].seq, b[i].seq);
    EXPECT_EQ(a[i].record.index(), b[i].record.index());
    EXPECT_EQ(a[i].removed, b[i].removed);
  }
}

}  // namespace
}  // namespace lockstep
