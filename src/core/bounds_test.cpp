// What a command may hold, and what the core may be made to do, asked of the core itself: the doors are not the only
// way in, and not the only ones that must be right.
#include "model/bounds.h"

#include "core/testing.h"
#include "model/job.h"
#include "model/kinds.h"

namespace lockstep {
namespace {

Error refusal(World& w, CommandBody body, Caller caller = kController) {
  auto outcome = w.run(std::move(body), caller);
  EXPECT_FALSE(outcome.ok());
  return outcome.ok() ? Error{} : outcome.error();
}
SubmitJob job_of(JobSpec spec) { return SubmitJob{.spec = std::make_shared<const JobSpec>(std::move(spec))}; }
std::vector<std::uint32_t> ranks_from(std::uint32_t first, std::uint32_t apart) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t i = 0; i < 50; ++i) ranks.push_back(first + i * apart);
  return ranks;
}
bool says(const Error& error, std::string_view words) { return error.message.find(words) != std::string::npos; }

TEST(CoreBounds, OfWhatAUserSubmits) {
  World w(2);
  const auto field_of = [&](auto&& change) {
    JobSpec spec = World::batch();
    change(spec);
    const Error error = refusal(w, job_of(std::move(spec)), kAliceCalls);
    EXPECT_EQ(error.code, Errc::kInvalid) << error.message;
    return error.field;
  };
  EXPECT_EQ(field_of([](JobSpec& s) { s.name = std::string(kNameBytesMax + 1, 'x'); }), "name");
  EXPECT_EQ(field_of([](JobSpec& s) { s.name = "a\x1b[2Jb"; }), "name");
  EXPECT_EQ(field_of([](JobSpec& s) { s.name = "a\nb"; }), "name");
  EXPECT_EQ(field_of([](JobSpec& s) { s.account = "a\rb"; }), "account");
  EXPECT_EQ(field_of([](JobSpec& s) { s.comment = std::string(kTextBytesMax + 1, 'x'); }), "comment");
  EXPECT_EQ(field_of([](JobSpec& s) { s.comment = "a\x07"; }), "comment");
  EXPECT_EQ(field_of([](JobSpec& s) { s.kill_wait = hours(24 * 30); }), "kill_wait_us");
  EXPECT_EQ(field_of([](JobSpec& s) { s.signal_ahead.signal = 65; }), "signal_ahead.signal");
  EXPECT_EQ(field_of([](JobSpec& s) { s.groups[0].argv = std::vector<std::string>(130'000, "1000000"); }),
            "groups[0].argv");
  EXPECT_EQ(field_of([](JobSpec& s) { s.groups[0].exclude_nodes = std::vector<std::string>(kNodeNamesMax + 1, "n"); }),
            "groups[0].exclude_nodes");
  EXPECT_EQ(field_of([](JobSpec& s) { s.dependencies = std::vector<Dependency>(kDependenciesMax + 1); }),
            "dependencies");
  EXPECT_EQ(field_of([](JobSpec& s) { s.groups = std::vector<GroupSpec>(kGroupsMax + 1); }), "groups");
  EXPECT_EQ(field_of([](JobSpec& s) { s.options = {{"wrap\n", "x"}}; }), "options[0]");
  EXPECT_EQ(field_of([](JobSpec& s) { s.groups[0].per_task.memory_mb = kMegabytesMax + 1; }),
            "groups[0].per_task.memory_mb");

  JobSpec fine = World::batch();
  fine.name = std::string(kNameBytesMax, 'x');
  fine.comment = "two\nlines\tof " + std::string(kTextBytesMax - 20, 'x');
  fine.kill_wait = kKillWaitMax;
  fine.groups[0].argv = std::vector<std::string>(kArgvWordsMax, std::string(12, 'x'));
  w.must(job_of(fine), kAliceCalls);
}

TEST(CoreBounds, OfStepsObjectsAndUpdates) {
  World w(1);
  const JobId id = w.submit(World::interactive());
  w.settle();
  StepSpec step;
  step.name = "a\x1b";
  EXPECT_EQ(refusal(w, CreateStep{id, std::make_shared<const StepSpec>(step)}, kAliceCalls).field, "name");
  step.name = "fine";
  step.multi_prog = {{std::string(kArgvBytesMax + 1, 'x')}};
  EXPECT_EQ(refusal(w, CreateStep{id, std::make_shared<const StepSpec>(step)}, kAliceCalls).field, "multi_prog");
  SubmitJob first = job_of(World::interactive());
  first.first_step = std::make_shared<const StepSpec>(step);
  EXPECT_EQ(refusal(w, first, kAliceCalls).field, "multi_prog");

  Object object;
  object.type = "apps/v1/Deployment";
  object.meta.name = "web";
  object.body = std::string(kObjectBytesMax + 1, 'x');
  EXPECT_EQ(refusal(w, PutObject{object}).field, "body");
  object.body.clear();
  object.meta.name = "web\x1b";
  EXPECT_EQ(refusal(w, PutObject{object}).field, "meta.name");
  SubmitJob with = job_of(World::batch());
  with.objects = {object};
  EXPECT_EQ(refusal(w, with, kAliceCalls).field, "meta.name");

  UpdateJob update;
  update.target.job = id;
  update.comment = std::string(2 << 20, 'x');
  EXPECT_EQ(refusal(w, update, kAliceCalls).field, "comment");
  update.comment.reset();
  update.name = "a\tb";
  EXPECT_EQ(refusal(w, update, kAliceCalls).field, "name");
  EXPECT_EQ(refusal(w, CancelJob{{id, {}}, 65}, kAliceCalls).field, "signal");
  EXPECT_EQ(refusal(w, SignalStep{id, 0, -1}, kAliceCalls).field, "signal");
}

TEST(CoreBounds, OfWhatNodesAndAdministratorsSay) {
  World w(1);
  Node facts = w.node(1);
  facts.features = std::vector<std::string>(8192, std::string(256, 'f'));  // 2 MiB
  EXPECT_EQ(refusal(w, NodeHello{facts}).field, "features");
  facts.features = {"a100", "ib\x1b[31m"};
  EXPECT_EQ(refusal(w, NodeHello{facts}).field, "features[1]");
  facts.features = {};
  facts.meta.name = "n1\nn2";
  EXPECT_EQ(refusal(w, NodeHello{facts}).field, "meta.name");
  facts.meta.name = "n1";
  facts.cores = CoreSet::kCapacity + 1;
  EXPECT_EQ(refusal(w, NodeHello{facts}).field, "cores");
  facts.cores = 4;
  facts.devices.resize(DeviceSet::kCapacity + 1);
  EXPECT_EQ(refusal(w, NodeHello{facts}).field, "devices");

  UpdateNode update{.name = "n1"};
  update.reason = "down\x1b[2J";
  EXPECT_EQ(refusal(w, update).field, "reason");

  User user;
  user.meta.name = "eve\r";
  EXPECT_EQ(refusal(w, PutUser{user}).field, "meta.name");
  JoinToken token;
  token.meta.name = "t";
  token.secret_sha256 = std::string(1000, '0');
  EXPECT_EQ(refusal(w, PutToken{token}).field, "secret_sha256");
  Reservation reservation;
  reservation.meta.name = "r";
  reservation.users = std::vector<std::string>(kManyNamesMax + 1, "u");
  EXPECT_EQ(refusal(w, PutReservation{reservation}).field, "users");
  Topology topology;
  topology.levels = std::vector<std::string>(kLevelsMax + 1, "l");
  EXPECT_EQ(refusal(w, PutTopology{topology}).field, "levels");
  Policy policy;
  policy.weight_tres.resize(kTresMax + 1);
  EXPECT_EQ(refusal(w, PutPolicy{policy}).field, "weight_tres");
  Account account;
  account.meta.name = "a";
  account.description = std::string(kTextBytesMax + 1, 'x');
  EXPECT_EQ(refusal(w, PutAccount{account}).field, "description");
}

TEST(CoreBounds, WhyALaunchFailedIsShownWithoutControlCharacters) {
  World w(1);
  const JobId id = w.submit(World::batch());
  while (w.start_what_fits() > 0)
    ;
  ASSERT_TRUE(w.report(1, id, LaunchFailed{"exec: \x1b[2J" + std::string(1 << 20, 'x')}).ok());
  const auto failed =
      std::find_if(w.events.begin(), w.events.end(), [](const Event& e) { return e.what == "LaunchFailed"; });
  ASSERT_NE(failed, w.events.end());
  EXPECT_EQ(failed->message.substr(0, 13), "n1: exec: ?[2");
  EXPECT_LE(failed->message.size(), kPhraseBytesMax + 10);
}

// Sums of what the records allow are no smaller than what real clusters need: each kind has room for as many as stated.
TEST(CoreBounds, OfHowManyRecordsOfAKind) {
  World w(1);
  for (std::size_t i = 1; i < row_of(Kind::kLicence).count_max; ++i) {
    Licence licence;
    licence.meta.name = "l" + std::to_string(i);
    ASSERT_TRUE(apply(w.state, Command{kController, PutLicence{licence}}, w.now).ok());
  }
  Licence last;
  last.meta.name = "last";
  ASSERT_TRUE(apply(w.state, Command{kController, PutLicence{last}}, w.now).ok());
  Licence over;
  over.meta.name = "over";
  const auto refused = apply(w.state, Command{kController, PutLicence{over}}, w.now);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_TRUE(says(refused.error(), "10000 records of kind licence")) << refused.error().message;
  last.total = 5;  // one that is there may change
  EXPECT_TRUE(apply(w.state, Command{kController, PutLicence{last}}, w.now).ok());
}

TEST(CoreBounds, OfTasksOnANode) {
  World w(2);
  JobSpec spec = World::interactive();
  spec.groups[0].overcommit = true;
  spec.groups[0].per_task = {};
  spec.groups[0].tasks_per_node = 0;
  spec.groups[0].tasks = {200'000, 200'000};
  const Error named = refusal(w, job_of(spec), kAliceCalls);  // srun -N1 -O -n 200000
  EXPECT_EQ(named.field, "groups[0].tasks");
  EXPECT_TRUE(says(named, "200000 tasks on 1 node(s); a node takes 4096 at most")) << named.message;
  spec.groups[0].nodes = {0, 0};
  const Error open = refusal(w, job_of(spec), kAliceCalls);  // srun -O -n 200000
  EXPECT_TRUE(says(open, "room for 8192")) << open.message;
  spec.groups[0].tasks = {4'100, 4'100};
  const JobId id = w.submit(job_of(spec));
  w.settle();
  EXPECT_EQ(w.job(id).allocation->grants.size(), 2u);

  spec.groups[0].tasks = {kJobTasksMax + 1, kJobTasksMax + 1};
  EXPECT_TRUE(says(refusal(w, job_of(spec), kAliceCalls), "4000000 are allowed"));
  JobSpec replicas = World::tasks(kTaskRecordsMax + 1, RestartRule::kNever, false);
  EXPECT_TRUE(says(refusal(w, job_of(replicas), kAliceCalls), "100000 are allowed"));
  replicas.groups[0].tasks = {1, kTaskRecordsMax};
  replicas.groups.push_back(replicas.groups[0]);
  EXPECT_EQ(refusal(w, job_of(replicas), kAliceCalls).field, "groups");
}

TEST(CoreBounds, OfTasksOfAStep) {
  World w(2);
  const JobId id = w.submit(World::interactive(2));
  w.settle();
  const auto step = [&](auto&& change) {
    StepSpec spec;
    spec.argv = {"true"};
    spec.overcommit = true;
    change(spec);
    return CreateStep{id, std::make_shared<const StepSpec>(std::move(spec))};
  };
  const Error each = refusal(w, step([](StepSpec& s) { s.tasks_per_node = 100'000'000; }), kAliceCalls);
  EXPECT_EQ(each.field, "tasks_per_node");
  EXPECT_TRUE(says(each, "between 0 and 4096")) << each.message;
  EXPECT_EQ(refusal(w, step([](StepSpec& s) { s.tasks = kStepTasksMax + 1; }), kAliceCalls).field, "tasks");
  const Error many = refusal(w, step([](StepSpec& s) { s.tasks = 200'000; }), kAliceCalls);
  EXPECT_TRUE(says(many, "200000 tasks on 2 node(s); a node takes 4096")) << many.message;

  const Answer most = w.must(step([](StepSpec& s) { s.tasks = 2 * kTasksPerNodeMax; }), kAliceCalls);
  const Step* made = w.state.tables().step(id, most.step);
  ASSERT_EQ(made->places.size(), 2u);
  for (const StepPlace& place : made->places) EXPECT_EQ(place.ranks.size(), kTasksPerNodeMax);
}

// One more on the first ones, none beyond what it has room for: as it was when tasks were dealt out one by one.
TEST(CoreBounds, TasksOfAStepAreDealtOutEvenly) {
  World w(3);
  const JobId id = w.submit(World::interactive(3));
  w.settle();
  StepSpec spec;
  spec.argv = {"true"};
  spec.overcommit = true;
  spec.tasks = 11;
  const Answer answer = w.must(CreateStep{id, std::make_shared<const StepSpec>(spec)}, kAliceCalls);
  std::vector<std::size_t> counts;
  for (const StepPlace& place : w.state.tables().step(id, answer.step)->places) counts.push_back(place.ranks.size());
  EXPECT_EQ(counts, (std::vector<std::size_t>{4, 4, 3}));
}

// The largest job there is room for starts, and its steps are laid out. Without looking at every record after every
// command.
TEST(CoreBounds, AMillionTasksOnTwentyThousandNodesWork) {
  constexpr std::uint32_t kNodes = 20'000, kTasks = 1'000'000;
  World w;
  const auto must = [&](CommandBody body, Caller caller = kController) {
    auto outcome = apply(w.state, Command{caller, std::move(body)}, w.now);
    CHECK(outcome.ok(), outcome.ok() ? "" : outcome.error().message);
    return std::move(outcome).value();
  };
  Node facts;
  facts.cores = 64;
  facts.memory_mb = 64'000;
  for (std::uint32_t i = 1; i <= kNodes; ++i) {
    facts.meta.name = World::name_of(i);
    facts.boot_id = w.boot(i);
    must(NodeHello{facts});
  }
  JobSpec spec = World::batch();
  spec.environment = std::string(64, 'e');
  spec.groups[0].nodes = {kNodes, kNodes};
  spec.groups[0].tasks = {kTasks, kTasks};
  spec.groups[0].tasks_per_node = 0;
  spec.groups[0].per_task = {};
  spec.groups[0].per_task.cores = 1;
  const JobId id = must(job_of(spec), kAliceCalls).answer.job;
  EXPECT_EQ(must(ApplyPlan{w.plan()}).answer.starts_applied, 1u);
  const Ref<Allocation> allocation = w.job(id).allocation;
  ASSERT_EQ(allocation->grants.size(), kNodes);
  const std::uint32_t first = w.first_node(id);
  must(AgentReport{w.id(first), w.boot(first), id, 1, AttemptStarted{}});
  EXPECT_EQ(w.state_of(id), JobState::kRunning);

  for (const std::string distribution : {"block", "cyclic"}) {
    StepSpec step;
    step.argv = {"true"};
    step.tasks = kTasks;
    step.overlap = true;
    step.distribution = distribution;
    const StepNo number = must(CreateStep{id, std::make_shared<const StepSpec>(step)}, kAliceCalls).answer.step;
    const Step* made = w.state.tables().step(id, number);
    ASSERT_EQ(made->places.size(), kNodes);
    EXPECT_EQ(made->places[1].ranks, distribution == "block" ? ranks_from(50, 1) : ranks_from(1, kNodes));
  }
  must(CancelJob{{id, {}}}, kAliceCalls);
  check_invariants(w.state);
}

TEST(CoreBounds, OfStepsOfAJob) {
  World w(1);
  const JobId id = w.submit(World::interactive());
  w.settle();
  StepSpec spec;
  spec.argv = {"true"};
  const CreateStep ask{id, std::make_shared<const StepSpec>(spec)};
  for (std::uint32_t i = 0; i < kLiveStepsPerJobMax; ++i)
    ASSERT_TRUE(apply(w.state, Command{kAliceCalls, ask}, w.now).ok()) << i;
  const auto refused = apply(w.state, Command{kAliceCalls, ask}, w.now);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Errc::kExhausted);
  EXPECT_TRUE(says(refused.error(), "4096 steps of job")) << refused.error().message;
}

TEST(CoreBounds, OfElementsOfAUser) {
  CoreSettings settings;
  settings.user_elements_max = 1000;
  World w(1, settings);
  JobSpec held = World::batch();
  held.hold = true;
  w.submit_array(held, "0-599");
  SubmitJob ask = job_of(held);
  ask.array = ArrayAsk{IntervalSet(0, 400), 0, 1};
  const Error error = refusal(w, ask, kAliceCalls);
  EXPECT_EQ(error.code, Errc::kExhausted);
  EXPECT_EQ(error.field, "array");
  EXPECT_TRUE(says(error, "600 elements")) << error.message;
  held.user = World::kBob;
  w.submit_array(held, "0-999");  // others have room of their own
  const JobId last = w.submit_array(World::batch(), "0-399");
  w.must(CancelJob{{last, {}}});
  held.user = World::kAlice;
  w.submit_array(held, "0-399");

  IntervalSet pieces;
  for (std::uint32_t i = 0; i <= kPiecesMax; ++i) pieces.insert(2 * i);
  ask.array = ArrayAsk{pieces, 0, 1};
  EXPECT_EQ(refusal(w, ask, kAliceCalls).field, "indices");
}

TEST(CoreBounds, OfGapsThatAreMadeInAnArray) {
  World w(1);
  JobSpec held = World::batch();
  held.hold = true;
  const JobId array = w.submit_array(held, "0-9999");
  const auto every_second = [](std::uint32_t from, std::uint32_t count) {
    IntervalSet out;
    for (std::uint32_t i = 0; i < count; ++i) out.insert(from + 2 * i);
    return out;
  };
  w.must(CancelJob{{array, every_second(0, kPiecesMax)}}, kAliceCalls);
  EXPECT_EQ(refusal(w, CancelJob{{array, every_second(0, kPiecesMax + 1)}}, kAliceCalls).field, "elements");
  w.must(CancelJob{{array, every_second(3000, kPiecesMax - 1)}}, kAliceCalls);
  EXPECT_LE(w.job(array).array->waiting.intervals().size(), kWaitingPiecesMax);
  const CancelJob more{{array, every_second(7000, 100)}};
  const Error error = refusal(w, more, kAliceCalls);
  EXPECT_EQ(error.code, Errc::kExhausted);
  EXPECT_TRUE(says(error, "2048 are allowed")) << error.message;
  EXPECT_EQ(refusal(w, HoldJob{{array, every_second(7000, 100)}}, kAliceCalls).code, Errc::kExhausted);
  w.must(CancelJob{{array, IntervalSet(0, 8000)}}, kAliceCalls);  // what closes gaps is taken
  w.must(CancelJob{{array, {}}}, kAliceCalls);
}

}  // namespace
}  // namespace lockstep
