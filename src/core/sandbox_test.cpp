// Tasks that are sandboxes: what their records show of address and containers, and where they may run.
#include "base/text.h"
#include "core/testing.h"
#include "model/bounds.h"
#include "model/job.h"

namespace lockstep {
namespace {

struct Sandboxes : testing::Test {
  World w{1};
  JobId id;

  static SandboxContainer container(const std::string& name, ContainerKind kind = ContainerKind::kMain) {
    SandboxContainer one;
    one.name = name;
    one.kind = kind;
    one.argv = {"serve"};
    return one;
  }
  static JobSpec spec(std::vector<SandboxContainer> containers, TaskNetwork network = TaskNetwork::kHost) {
    JobSpec spec = World::tasks(1, RestartRule::kOnFailure, false);
    spec.groups[0].restarts_max = 3;
    spec.groups[0].sandbox = {network, std::move(containers), {}};
    return spec;
  }
  void start(std::vector<SandboxContainer> containers) {
    w.must(NodeHello{with_range(1, "10.0.1.0/24")});
    id = w.submit(spec(std::move(containers)));
    w.start_what_fits();
    w.obey();
  }
  Task task() const { return *w.state.tables().tasks.at({id, 0, 0}); }
  static ContainerStatus status(ContainerState state, std::uint32_t restarts = 0, bool ready = false) {
    ContainerStatus one;
    one.state = state;
    one.restarts = restarts;
    one.ready = ready;
    return one;
  }
  void tell(std::vector<ContainerStatus> containers, const std::string& address = "10.0.1.2") {
    EXPECT_TRUE(w.report(1, id, TaskContainers{0, 0, task().incarnation, address, std::move(containers), {}}).ok());
  }
  Node with_range(std::uint32_t i, const std::string& range) {
    Node facts;
    facts.meta.name = World::name_of(i);
    facts.boot_id = w.boot(i);
    facts.cores = World::kCores;
    facts.memory_mb = 64'000;
    facts.task_range = range;
    return facts;
  }
};

using State = ContainerState;

TEST_F(Sandboxes, the_record_shows_how_far_containers_have_come) {
  start({container("setup", ContainerKind::kInit), container("web")});
  EXPECT_EQ(task().state, TaskState::kRunning);
  EXPECT_FALSE(task().ready);
  w.now = w.now + seconds(1);
  tell({status(State::kRunning), status(State::kWaiting)});
  const Instant setup_began = w.now;
  w.now = w.now + seconds(5);
  tell({status(State::kEnded), status(State::kRunning, 0, true)});
  EXPECT_EQ(task().address, "10.0.1.2");
  EXPECT_TRUE(task().ready) << "an init container that has ended is not waited for";
  EXPECT_EQ(task().containers->at(0).name, "setup");
  EXPECT_EQ(task().containers->at(0).started, setup_began);
  EXPECT_EQ(task().containers->at(0).ended, w.now);
  EXPECT_EQ(task().containers->at(1).started, w.now);
  const Seq before = task().meta.seq;
  tell({status(State::kEnded), status(State::kRunning, 0, true)});
  EXPECT_EQ(task().meta.seq, before) << "said twice, it changes nothing";
}

TEST_F(Sandboxes, a_container_starts_again_within_the_same_life_of_the_task) {
  start({container("web")});
  tell({status(State::kRunning, 0, true)});
  w.now = w.now + seconds(9);
  tell({status(State::kWaiting, 1)});
  EXPECT_EQ(task().incarnation, 1u);
  EXPECT_EQ(task().state, TaskState::kRunning);
  EXPECT_FALSE(task().ready);
  EXPECT_EQ(task().containers->at(0).ended, w.now);
  w.now = w.now + seconds(1);
  tell({status(State::kRunning, 1, true)});
  EXPECT_EQ(task().containers->at(0).started, w.now);
  EXPECT_EQ(task().containers->at(0).ended, Instant{});
  EXPECT_EQ(task().containers->at(0).restarts, 1u);
}

TEST_F(Sandboxes, the_address_goes_with_the_sandbox) {
  start({container("web")});
  tell({status(State::kRunning, 0, true)});
  EXPECT_TRUE(w.report(1, id, TaskEnded{0, 0, 1, {1, 0, false}}).ok());
  EXPECT_EQ(task().state, TaskState::kWaiting);
  EXPECT_EQ(task().incarnation, 2u);
  EXPECT_EQ(task().address, "");
  EXPECT_EQ(task().containers->at(0).state, State::kEnded) << "nobody said how it ended, and it has";
  EXPECT_TRUE(w.report(1, id, TaskContainers{0, 0, 1, "10.0.1.2", {status(State::kRunning)}, {}}).ok());
  EXPECT_EQ(task().address, "") << "a late word of the life before";
}

TEST_F(Sandboxes, who_has_ended_shows_the_address_that_it_had_until_another_has_it) {
  JobSpec one = spec({container("web")});
  one.groups[0].restart = RestartRule::kNever;
  w.must(NodeHello{with_range(1, "10.0.1.0/24")});
  id = w.submit(one);
  const JobId other = w.submit(one);
  w.start_what_fits();
  w.obey();
  tell({status(State::kRunning)});
  EXPECT_TRUE(w.report(1, id, TaskEnded{0, 0, 1, {}}).ok());
  EXPECT_EQ(task().state, TaskState::kEnded);
  EXPECT_EQ(task().address, "10.0.1.2");
  EXPECT_TRUE(w.report(1, other, TaskContainers{0, 0, 1, "10.0.1.2", {status(State::kRunning)}, {}}).ok());
  EXPECT_EQ(w.state.tables().tasks.at({other, 0, 0})->address, "10.0.1.2");
}

TEST_F(Sandboxes, a_node_that_names_other_containers_is_not_believed) {
  start({container("web")});
  tell({status(State::kRunning), status(State::kRunning)});
  EXPECT_TRUE(task().containers->empty());
  ContainerStatus other = status(State::kRunning);
  other.name = "other";
  tell({other});
  EXPECT_EQ(task().containers->at(0).name, "web");
}

TEST_F(Sandboxes, why_a_task_could_not_start_is_why_its_job_failed) {
  JobSpec one = spec({container("web")});
  one.groups[0].restart = RestartRule::kNever;
  id = w.submit(one);
  w.start_what_fits();
  w.obey();
  EXPECT_TRUE(w.report(1, id, TaskContainers{0, 0, 1, {}, {}, "no plug-in"}).ok());
  EXPECT_TRUE(w.report(1, id, TaskEnded{0, 0, 1, {1, 0, false}}).ok());
  EXPECT_EQ(w.job(id).end_reason, "task 0.0: no plug-in");
}

TEST_F(Sandboxes, a_container_without_memory_is_why_its_job_ended) {
  JobSpec one = spec({container("web")});
  one.groups[0].restart = RestartRule::kNever;
  w.must(NodeHello{with_range(1, "10.0.1.0/24")});
  id = w.submit(one);
  w.start_what_fits();
  w.obey();
  ContainerStatus over = status(State::kEnded);
  over.exit = {0, 9, true};
  tell({over});
  EXPECT_TRUE(w.report(1, id, TaskEnded{0, 0, 1, {137, 0, false}}).ok());
  EXPECT_EQ(w.job(id).ending, JobState::kOutOfMemory);
  EXPECT_EQ(w.job(id).end_reason, "OutOfMemory");
  EXPECT_TRUE(w.job(id).exit.oom);
}

TEST_F(Sandboxes, addresses_come_from_nodes_that_have_some) {
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<JobSpec>(spec({container("web")}, TaskNetwork::kOwn))}),
            Errc::kImpossible);
  w.must(NodeHello{with_range(2, "10.0.2.0/24")});
  id = w.submit(spec({container("web")}, TaskNetwork::kOwn));
  EXPECT_FALSE(eligible(w.node(1), *w.state.tables().default_partition(), w.job(id).spec->groups[0]));
  EXPECT_TRUE(eligible(w.node(2), *w.state.tables().default_partition(), w.job(id).spec->groups[0]));
}

TEST_F(Sandboxes, no_two_nodes_have_the_same_addresses) {
  w.must(NodeHello{with_range(2, "10.0.2.0/24")});
  w.must(NodeHello{with_range(3, "10.0.2.128/25")});
  EXPECT_EQ(w.node(2).task_range, "10.0.2.0/24");
  EXPECT_EQ(w.node(3).task_range, "");
  EXPECT_NE(reason_of(w.node(3)).words.find("overlaps that of node n2"), std::string::npos);
  EXPECT_TRUE(node_usable(w.node(3))) << "for everything else";
  w.must(NodeHello{with_range(3, "10.0.3.0/24")});
  EXPECT_EQ(w.node(3).task_range, "10.0.3.0/24");
  EXPECT_EQ(reason_of(w.node(3)).words, "");
  w.must(NodeHello{with_range(3, "10.0.3.1/24")});
  EXPECT_EQ(w.node(3).task_range, "");
}

TEST_F(Sandboxes, what_nodes_do_for_root_alone_is_refused_to_others) {
  const auto refused = [&](auto edit) {
    JobSpec one = spec({container("a")});
    edit(one.groups[0].sandbox);
    auto outcome = w.run(SubmitJob{.spec = std::make_shared<JobSpec>(std::move(one))});
    return outcome.ok() ? std::string() : outcome.error().message;
  };
  const std::string said = "only sandboxes of root's may be so: ";
  EXPECT_EQ(refused([](Sandbox&) {}), "");
  EXPECT_EQ(refused([](Sandbox& s) { s.volumes = {{.kind = SandboxVolume::Kind::kHost, .name = "v", .path = "/"}}; }),
            said + "volume v is memory, files of its front end or of the node");
  EXPECT_EQ(refused([](Sandbox& s) { s.containers[0].rights.uid = 0; }), said + "container a has rights of its own");
  EXPECT_EQ(refused([](Sandbox& s) { s.published = {{18080, 80}}; }), said + "ports of the node lead to it");
  EXPECT_EQ(refused([](Sandbox& s) { s.node_processes = true; }), said + "it shares processes or IPC");
  EXPECT_EQ(refused([](Sandbox& s) { s.front_end_files = true; }), said + "its front end gives files");
}

TEST_F(Sandboxes, what_means_nothing_is_refused) {
  const auto refused = [&](JobSpec spec) {
    auto outcome = w.run(SubmitJob{.spec = std::make_shared<JobSpec>(std::move(spec))});
    return outcome.ok() ? std::string() : outcome.error().message;
  };
  EXPECT_NE(refused(spec({container("Web")})).find("no name of a container"), std::string::npos);
  EXPECT_NE(refused(spec({container("a"), container("a")})).find("two containers are called a"), std::string::npos);
  EXPECT_NE(refused(spec({container("a", ContainerKind::kSidecar)})).find("kind main"), std::string::npos);
  JobSpec script = World::batch();
  script.groups[0].sandbox.containers = {container("a")};
  EXPECT_NE(refused(script).find("only tasks that the cluster starts"), std::string::npos);
  JobSpec out = spec({container("a")});
  out.groups[0].sandbox.volumes = {{.name = "v"}};
  out.groups[0].sandbox.containers[0].container = {.image = "docker://x", .mounts = {{"volume:v/../..", "/up"}}};
  EXPECT_NE(refused(out).find("leads out of the volume"), std::string::npos);
  JobSpec many = spec({});
  for (int i = 0; i < 33; ++i) many.groups[0].sandbox.containers.push_back(container(format("c{}", i)));
  EXPECT_NE(refused(many).find("33"), std::string::npos);
}

struct RootsSandboxes : Sandboxes {
  void start_one(std::uint32_t cores, std::int64_t memory_mb) {
    w.must(NodeHello{with_range(1, "10.0.1.0/24")});
    User root;
    root.meta.name = "root";
    JobSpec one = spec({container("web")});
    one.user = w.must(PutUser{root}).user;
    one.groups[0].sandbox.front_end_files = true;
    one.groups[0].per_task.cores = cores;
    one.groups[0].overcommit = cores == 0;
    one.groups[0].per_task.memory_mb = memory_mb;
    id = w.submit(std::move(one));
    w.start_what_fits();
    w.obey();
  }
  const Grant& grant() const { return w.state.tables().job(id)->allocation->grants[0]; }
  Result<void> resize(std::uint32_t cores, std::int64_t memory_mb) {
    UpdateJob change{.target = {id, {}}};
    change.cores_per_task = cores;
    change.memory_mb_per_task = memory_mb;
    const auto done = w.run(change);
    return done.ok() ? Result<void>() : Result<void>(done.error());
  }
};

TEST_F(RootsSandboxes, containers_added_since_are_shown_behind_the_others_and_waited_for_by_nobody) {
  start_one(1, 100);
  ContainerStatus added = status(State::kRunning);
  added.name = "looks";
  tell({status(State::kRunning, 0, true), added});
  ASSERT_EQ(task().containers->size(), 2u);
  EXPECT_EQ(task().containers->at(1).name, "looks");
  EXPECT_TRUE(task().ready);
  tell(std::vector<ContainerStatus>(1 + kAddedContainersMax + 1, added));
  EXPECT_EQ(task().containers->size(), 2u) << "a node that names more is not believed";
}

TEST_F(RootsSandboxes, have_more_or_less_of_their_node_while_they_run) {
  start_one(2, 1000);
  const CoreSet before = grant().cores;
  EXPECT_EQ(before.count(), 2u);
  ASSERT_TRUE(resize(4, 3000).ok());
  EXPECT_EQ(grant().cores.count(), 4u);
  EXPECT_TRUE(grant().cores.contains(before)) << "what it keeps stays where it is";
  EXPECT_EQ(grant().memory_mb, 3000);
  EXPECT_EQ(w.state.tables().job(id)->spec->groups[0].per_task.memory_mb, 3000);
  ASSERT_TRUE(resize(1, 500).ok());
  EXPECT_EQ(grant().cores.count(), 1u);
  EXPECT_TRUE(before.contains(grant().cores));
  ASSERT_TRUE(resize(0, 0).ok()) << "it shares what is there";
  EXPECT_FALSE(grant().cores.any());
  EXPECT_EQ(grant().memory_mb, 0);
}

TEST_F(RootsSandboxes, have_no_more_than_there_is) {
  start_one(2, 1000);
  EXPECT_EQ(resize(World::kCores + 1, 1000).error().code, Errc::kExhausted);
  EXPECT_EQ(resize(2, 1'000'000'000).error().code, Errc::kExhausted);
  EXPECT_EQ(resize(2, -2).error().code, Errc::kInvalid);
  EXPECT_EQ(grant().cores.count(), 2u);
  EXPECT_EQ(grant().memory_mb, 1000);
}

TEST_F(Sandboxes, of_others_stay_as_large_as_they_are) {
  start({container("web")});
  UpdateJob change{.target = {id, {}}};
  change.memory_mb_per_task = 5;
  EXPECT_EQ(w.refused(change), Errc::kUnsupported);
}

}  // namespace
}  // namespace lockstep
