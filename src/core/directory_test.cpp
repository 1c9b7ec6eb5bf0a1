#include "base/text.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

TEST(Directory, StartEpochMakesTheCluster) {
  World w;
  EXPECT_EQ(w.state.tables().cluster->name, "test");
  EXPECT_EQ(w.state.tables().cluster->epoch, 1u);
  EXPECT_EQ(w.state.tables().default_partition()->meta.name, "main");
  w.must(StartEpoch{"renamed"});
  EXPECT_EQ(w.state.tables().cluster->name, "test");
  EXPECT_EQ(w.state.tables().cluster->epoch, 2u);
  EXPECT_EQ(w.state.tables().partitions.size(), 1u);
}

TEST(Directory, AdministratorsOnly) {
  World w(1);
  EXPECT_EQ(w.refused(PutUser{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(PutAccount{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(PutPartition{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(RemovePartition{"main"}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(UpdateNode{.name = "n1"}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(RemoveNode{"n1"}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(PutToken{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(NodeHello{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(NodeFenced{w.id(1), w.boot(1), ""}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(AgentReport{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(ApplyPlan{}, kAliceCalls), Errc::kDenied);
  EXPECT_EQ(w.refused(Tick{}, kAliceCalls), Errc::kDenied);
}

TEST(Directory, RefusalsNameThePersonNotOurRecord) {
  World w(1);
  const JobId job = w.submit(World::batch());
  const Caller bob{UserId(2), false};
  const auto words = [&](CommandBody body) { return w.run(std::move(body), bob).error().message; };
  EXPECT_EQ(words(CancelJob{{job, {}}, 0, SignalReach::kEverything}),
            format("user bob may not change job {}", job.value));
  EXPECT_EQ(words(RemoveNode{"n1"}).find("user bob may not "), 0u);
  JobSpec spec = World::batch();
  EXPECT_EQ(words(SubmitJob{.spec = std::make_shared<const JobSpec>(spec)}),
            "user bob may not submit jobs for user alice");
}

TEST(Directory, UsersGoByRealmAndUid) {
  World w;
  User carol;
  carol.meta.name = "carol";
  carol.uid = 2000;
  const UserId id = w.must(PutUser{carol}).user;
  EXPECT_EQ(id, UserId(3));
  carol.home = "/home/carol";
  EXPECT_EQ(w.must(PutUser{carol}).user, id);
  EXPECT_EQ(w.state.tables().user(id)->home, "/home/carol");
  carol.realm = "elsewhere";
  EXPECT_EQ(w.must(PutUser{carol}).user, UserId(4));
  carol.uid = 2001;
  EXPECT_EQ(w.refused(PutUser{carol}), Errc::kConflict);  // the name is taken there
  carol.id = UserId(99);
  EXPECT_EQ(w.refused(PutUser{carol}), Errc::kNotFound);
}

TEST(Directory, AccountsAreATree) {
  World w;
  Account a, b;
  a.meta.name = "a";
  b.meta.name = "b";
  b.parent = "a";
  EXPECT_EQ(w.refused(PutAccount{b}), Errc::kNotFound);
  w.must(PutAccount{a});
  w.must(PutAccount{b});
  a.parent = "b";
  EXPECT_EQ(w.refused(PutAccount{a}), Errc::kInvalid);
}

TEST(Directory, OneDefaultPartition) {
  World w(1);
  Partition other;
  other.meta.name = "other";
  other.nodes = {"ALL"};
  other.is_default = true;
  w.must(PutPartition{other});
  EXPECT_EQ(w.state.tables().default_partition()->meta.name, "other");
  EXPECT_FALSE(w.state.tables().partition("main")->is_default);
  w.submit(World::batch());
  EXPECT_EQ(w.refused(RemovePartition{"other"}), Errc::kConflict);
  w.must(RemovePartition{"main"});
  EXPECT_EQ(w.refused(RemovePartition{"main"}), Errc::kNotFound);
}

TEST(Directory, ANameGoesToWhomTheDatabaseGivesIt) {
  World w;
  User ann;
  ann.meta.name = "ann";
  ann.uid = 3000;
  ann.groups = {7};
  ann.admin = true;
  const UserId old = w.must(PutUser{ann, true}).user;
  w.must(PutUser{[&] {
    User admin = *w.state.tables().user(old);
    admin.admin = true;
    return admin;
  }()});
  JobSpec spec = World::batch();
  spec.user = old;
  const JobId job = w.submit(spec);

  // Recreated with another uid.
  ann.uid = 3001;
  ann.admin = false;
  EXPECT_EQ(w.refused(PutUser{ann}), Errc::kConflict);
  const UserId fresh = w.must(PutUser{ann, true}).user;
  EXPECT_NE(fresh, old);
  EXPECT_EQ(w.state.tables().user(fresh)->meta.name, "ann");
  EXPECT_FALSE(w.state.tables().user(fresh)->admin);
  const User& retired = *w.state.tables().user(old);
  EXPECT_EQ(retired.meta.name, "uid3000");
  EXPECT_EQ(retired.uid, 3000u);
  EXPECT_TRUE(retired.groups.empty());
  EXPECT_FALSE(retired.admin);
  EXPECT_EQ(w.job(job).spec->user, old);  // runs under its own uid
  EXPECT_EQ(w.must(SubmitJob{.spec = std::make_shared<const JobSpec>([&] {
                               JobSpec next = World::batch();
                               next.user = fresh;
                               return next;
                             }())},
                   {fresh, false})
                .job,
            JobId(job.value + 1));
}

TEST(Directory, AUidWithANewNameIsSomebodyNew) {
  World w;
  User ann;
  ann.meta.name = "ann";
  ann.uid = 3000;
  ann.admin = true;
  ann.account = "physics";
  const UserId id = w.must(PutUser{ann}).user;
  w.must(PutUser{ann, true});
  EXPECT_TRUE(w.state.tables().user(id)->admin);  // the database says nothing of that
  EXPECT_EQ(w.state.tables().user(id)->account, "physics");
  User bob = ann;
  bob.meta.name = "bobby";
  EXPECT_EQ(w.must(PutUser{bob, true}).user, id);
  EXPECT_EQ(w.state.tables().user(id)->meta.name, "bobby");
  EXPECT_FALSE(w.state.tables().user(id)->admin);
  EXPECT_EQ(w.state.tables().user(id)->account, "");
  // A number that gets its name only now is still the same person.
  User numbered;
  numbered.meta.name = "uid3005";
  numbered.uid = 3005;
  numbered.admin = true;
  const UserId number = w.must(PutUser{numbered}).user;
  numbered.meta.name = "carl";
  w.must(PutUser{numbered, true});
  EXPECT_TRUE(w.state.tables().user(number)->admin);
}

TEST(Nodes, KeepWhatAdministratorsSaid) {
  World w(1);
  w.must(UpdateNode{"n1", true, "bad fan", 7, {{"h100"}}});
  w.reboot(1);
  EXPECT_TRUE(w.node(1).drain);
  EXPECT_EQ(w.node(1).reason, "bad fan");
  EXPECT_EQ(w.node(1).weight, 7u);
  EXPECT_EQ(w.node(1).features, std::vector<std::string>{"h100"});
  w.submit(World::batch());
  EXPECT_EQ(w.start_what_fits(), 0u);
  w.must(UpdateNode{.name = "n1", .drain = false});
  EXPECT_EQ(w.node(1).reason, "");
  EXPECT_EQ(w.start_what_fits(), 1u);
}

TEST(Nodes, AResumeEndsWhatWasSaidOfTheDrainThoughTheNodeIsSilent) {
  World w(1);
  w.must(NodeLost{w.node(1).id});
  EXPECT_EQ(w.node(1).reason, "Not responding");
  w.must(UpdateNode{.name = "n1", .drain = true, .reason = "adm"});
  EXPECT_EQ(w.node(1).reason, "adm");
  w.must(UpdateNode{.name = "n1", .drain = false});
  EXPECT_EQ(w.node(1).reason, "Not responding") << "that is what keeps it away now";
  EXPECT_FALSE(w.node(1).reason_by);
  EXPECT_NE(w.node(1).reason_at, Instant{});
  w.reboot(1);
  EXPECT_EQ(w.node(1).reason, "");
  EXPECT_EQ(w.node(1).reason_at, Instant{});
}

TEST(Nodes, ADrainedOneThatAnswersAgainIsNotCalledSilent) {
  World w(1);
  w.must(NodeLost{w.node(1).id});
  w.must(UpdateNode{.name = "n1", .drain = true});
  w.reboot(1);
  EXPECT_TRUE(w.node(1).drain);
  EXPECT_EQ(w.node(1).reason, "");
}

TEST(Nodes, RefuseNonsense) {
  World w(1);
  Node facts;
  EXPECT_EQ(w.refused(NodeHello{facts}), Errc::kInvalid);
  facts.meta.name = "n9";
  EXPECT_EQ(w.refused(NodeHello{facts}), Errc::kInvalid);
  facts.boot_id = "b";
  facts.cores = 513;
  EXPECT_EQ(w.refused(NodeHello{facts}), Errc::kInvalid);
  facts.cores = 1;
  facts.devices.resize(65);
  EXPECT_EQ(w.refused(NodeHello{facts}), Errc::kInvalid);
  EXPECT_EQ(w.refused(UpdateNode{.name = "n9"}), Errc::kNotFound);
  w.must(NodeLost{NodeId(9)});
  w.must(NodeFenced{NodeId(9), "b", ""});
}

TEST(Nodes, AreForgottenWhenDownAndEmpty) {
  World w(2);
  const JobId job = w.submit(World::batch(1, 8));
  w.settle();
  const std::uint32_t node = w.first_node(job);
  const std::string name = World::name_of(node);
  EXPECT_EQ(w.refused(RemoveNode{name}), Errc::kConflict);
  w.lose(node);
  EXPECT_EQ(w.refused(RemoveNode{name}), Errc::kConflict);
  w.fence(node);
  w.must(RemoveNode{name});
  EXPECT_EQ(w.state.tables().node(name), nullptr);
  w.silent.clear();
  EXPECT_EQ(w.hello(node), NodeId(3));  // ids are not given twice
}

TEST(Nodes, MayShrinkUnderAJob) {
  World w(1);
  const JobId job = w.submit(World::batch(1, 8));
  w.settle();
  Node facts = w.node(1);
  facts.devices.resize(2);
  facts.cores = 2;
  w.must(NodeHello{facts});
  w.end_script(job);
  EXPECT_EQ(w.state_of(job), JobState::kCompleted);
  EXPECT_EQ(w.refused(SubmitJob{.spec = std::make_shared<const JobSpec>(World::batch())}), Errc::kImpossible);
}

}  // namespace
}  // namespace lockstep
