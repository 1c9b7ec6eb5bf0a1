// What the core checks again of placements that other jobs, labels and marks bound, and what is said of nodes from
// outside.
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

JobSpec pod(const std::string& app, std::vector<NeighbourTerm> terms = {}) {
  JobSpec spec = World::tasks(1, RestartRule::kNever, true);
  spec.scope = "lab";
  spec.labels = Labels{{"app", app}};
  GroupSpec group = spec.groups.get().front();
  group.per_task = {};
  group.per_task.shared_milli = 250;
  group.overcommit = true;
  group.minds_marks = true;
  group.neighbours = std::move(terms);
  spec.groups = std::vector<GroupSpec>{group};
  return spec;
}

NeighbourTerm apart_from(const std::string& app) {
  NeighbourTerm out{.wish = NeighbourTerm::Wish::kApart};
  out.scopes = {"lab"};
  out.jobs = {{.key = "app", .is = LabelRule::Is::kOneOf, .values = {app}}};
  return out;
}

TEST(Neighbours, OfTwoThatKeepApartAPlanPutsOneOnANode) {
  World w(1);
  const JobId first = w.submit(pod("a", {apart_from("a")})), second = w.submit(pod("a", {apart_from("a")}));
  const Answer answer = w.must(ApplyPlan{w.plan()});
  EXPECT_EQ(answer.starts_applied, 1u);
  ASSERT_EQ(answer.refused.size(), 1u);
  EXPECT_EQ(answer.refused[0].job, second);
  EXPECT_EQ(answer.refused[0].reason, "Neighbours");
  w.must(CancelJob{{first, {}}});
  w.obey();
  EXPECT_EQ(w.start_what_fits(), 1u);
}

TEST(Neighbours, WhoIsThereKeepsOthersOff) {
  World w(1);
  w.submit(pod("quiet", {apart_from("noisy")}));
  EXPECT_EQ(w.start_what_fits(), 1u);
  w.submit(pod("noisy"));
  EXPECT_EQ(w.start_what_fits(), 0u);
  w.submit(pod("plain"));
  EXPECT_EQ(w.start_what_fits(), 1u);
}

TEST(Neighbours, ChangedLabelsOfWhoIsThereCount) {
  World w(1);
  const JobId there = w.submit(pod("a"));
  EXPECT_EQ(w.start_what_fits(), 1u);
  const JobId shy = w.submit(pod("b", {apart_from("noisy")}));
  const auto planned = w.plan();
  w.must(UpdateJob{.target = {there, {}}, .labels = Labels{{"tier", "x"}, {"app", "noisy"}}});
  EXPECT_EQ(w.state.tables().job(there)->spec->labels.get(), (Labels{{"app", "noisy"}, {"tier", "x"}}));
  EXPECT_EQ(w.must(ApplyPlan{planned}).starts_applied, 0u) << "a plan from before is stale";
  EXPECT_EQ(w.start_what_fits(), 0u);
  w.must(UpdateJob{.target = {there, {}}, .labels = Labels{{"app", "a"}}});
  EXPECT_EQ(w.start_what_fits(), 1u);
  EXPECT_EQ(w.state_of(shy), JobState::kStarting);
}

TEST(Neighbours, PartsOfCoresAreNeverGivenTwice) {
  World w(1);
  for (int i = 0; i < 70; ++i) w.submit(pod("a"));
  EXPECT_EQ(w.start_what_fits(), World::kCores * 4);
  const JobId whole = w.submit(World::batch());
  EXPECT_EQ(w.start_what_fits(), 0u);
  EXPECT_EQ(w.state.load(w.id(1)).shared_milli, 16'000);
  EXPECT_EQ(w.state_of(whole), JobState::kPending);
  for (std::uint64_t id = 1; id <= 64; ++id) w.must(CancelJob{{JobId{id}, {}}});
  w.obey();
  EXPECT_EQ(w.start_what_fits(), 7u) << "six that waited, and the cores beside them";
  EXPECT_EQ(w.state.load(w.id(1)).shared_milli, 1500);
}

TEST(Neighbours, MarksKeepOffWhoMindsThem) {
  World w(1);
  const JobId id = w.submit(pod("a"));
  const auto planned = w.plan();
  w.must(UpdateNode{.name = "n1", .marks = std::vector<NodeMark>{{"team", "x", NodeMark::Effect::kKeepsOff}}});
  EXPECT_EQ(w.must(ApplyPlan{planned}).starts_applied, 0u) << "a plan from before is stale";
  EXPECT_EQ(w.start_what_fits(), 0u);
  w.submit(World::batch());
  EXPECT_EQ(w.start_what_fits(), 1u) << "batch jobs mind no marks";
  w.must(UpdateNode{.name = "n1", .marks = std::vector<NodeMark>{}});
  EXPECT_EQ(w.start_what_fits(), 1u);
  EXPECT_EQ(w.state_of(id), JobState::kStarting);
}

TEST(Neighbours, WhatIsSaidOfANodeOutlivesItsHello) {
  World w(1);
  w.must(UpdateNode{.name = "n1",
                    .labels = Labels{{"zone", "b"}, {"disk", "ssd"}},
                    .marks = std::vector<NodeMark>{{"team", "x", NodeMark::Effect::kDrives}},
                    .added_counted = std::vector<Counted>{{"example.com/foo", 5}}});
  const auto says = [&] {
    EXPECT_EQ(w.node(1).labels, (Labels{{"disk", "ssd"}, {"zone", "b"}}));
    EXPECT_EQ(w.node(1).marks.size(), 1u);
    EXPECT_EQ(w.node(1).counted, (std::vector<Counted>{{"example.com/foo", 5}}));
  };
  says();
  w.reboot(1);
  says();
  w.must(UpdateNode{.name = "n1", .added_counted = std::vector<Counted>{{"example.com/bar", 2}}});
  EXPECT_EQ(w.node(1).counted, (std::vector<Counted>{{"example.com/bar", 2}}));
  w.must(UpdateNode{.name = "n1", .added_counted = std::vector<Counted>{}});
  EXPECT_TRUE(w.node(1).counted.empty());
}

}  // namespace
}  // namespace lockstep
