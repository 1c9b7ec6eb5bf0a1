// Tasks that are sandboxes: what their records show of address and containers, and where they may run.
#include "base/text.h"
#include "core/testing.h"
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

}  // namespace
}  // namespace lockstep
