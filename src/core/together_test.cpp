// Command::also: several changes in one command, all of them or none.
#include "base/text.h"
#include "core/testing.h"
#include "model/bounds.h"
#include "model/spec.h"

namespace lockstep {
namespace {

PutQos qos(std::string name) {
  Qos record;
  record.meta.name = std::move(name);
  return {record, 0};
}

PutObject object(std::string name) {
  Object record;
  record.type = "v1/Pod";
  record.meta.ns = "default";
  record.meta.name = std::move(name);
  record.body = "{}";
  return {record, 0};
}

Command together(std::vector<CommandBody> bodies, Caller caller = kController) {
  Command command{caller, std::move(bodies.front()), {}, {}, {}};
  command.also.assign(std::make_move_iterator(bodies.begin() + 1), std::make_move_iterator(bodies.end()));
  return command;
}

TEST(Together, AnObjectAndItsJobComeInOneOutcome) {
  World w(1);
  SubmitJob submit{.spec = std::make_shared<const JobSpec>(World::batch(1))};
  const auto outcome = w.run(together({object("pod"), submit}));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_FALSE(outcome->answer.job) << "the first body's answer is the outcome's own";
  ASSERT_EQ(outcome->answer.also.size(), 1u);
  EXPECT_NE(w.state.tables().job(outcome->answer.also[0].job), nullptr);
  EXPECT_EQ(w.state.tables().objects.size(), 1u);
}

// What was made in one command is marked, removed and cancelled in one, however long it is.
TEST(Together, ALongObjectAndItsJobGoInOneOutcome) {
  World w(1);
  PutObject put = object("pod");
  put.object.body = std::string(1 << 20, 'x');
  JobSpec spec = World::batch(1);
  spec.groups.front().argv = {"true", std::string(900 << 10, 'y')};
  ASSERT_TRUE(w.run(together({put, SubmitJob{.spec = std::make_shared<const JobSpec>(spec)}})).ok());
  const JobId job = w.state.tables().jobs.begin()->first;
  put.object.body += "z";
  const auto outcome = w.run(together({put, RemoveObject{"v1/Pod", "default", "pod"}, CancelJob{.target = {job, {}}}}));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(w.state.tables().objects.empty());
}

TEST(Together, ARefusalTakesEverythingBackAndSaysWhich) {
  World w;
  const auto outcome = w.run(together({qos("one"), qos("two"), RemoveQos{"three"}, qos("four")}));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, Errc::kNotFound);
  EXPECT_EQ(outcome.error().field.substr(0, 7), "also[1]");
  EXPECT_FALSE(w.state.tables().qos.contains("one"));
}

TEST(Together, ALaterBodySeesWhatAnEarlierOneDid) {
  World w;
  Account account;
  account.meta.name = "physics";
  Association association;
  association.account = "physics";
  association.user = "alice";
  ASSERT_TRUE(w.run(together({PutAccount{account}, PutAssociation{association}})).ok());
  Account child;
  child.meta.name = "optics";
  child.parent = "physics";
  ASSERT_FALSE(w.run(together({PutAccount{child}, RemoveAccount{"physics"}})).ok()) << "there is one below it";
  EXPECT_FALSE(w.state.tables().accounts.contains("optics"));
}

TEST(Together, TheRightsOfTheCallerCountForEach) {
  World w(1);
  SubmitJob submit{.spec = std::make_shared<const JobSpec>(World::batch(1))};
  const auto outcome = w.run(together({submit, qos("mine")}, {World::kAlice, false}));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, Errc::kDenied);
  EXPECT_TRUE(w.state.tables().jobs.empty());
}

TEST(Together, WhatTellsOfTheWorldStandsAlone) {
  World w;
  for (const CommandBody& body : {CommandBody(Tick{}), CommandBody(StartEpoch{"again"}), CommandBody(ApplyPlan{})}) {
    const auto outcome = w.run(together({qos("one"), body}));
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().field, "also[0]");
  }
}

TEST(Together, ThereAreBounds) {
  World w;
  std::vector<CommandBody> bodies;
  for (std::size_t i = 0; i < kTogetherMax; ++i) bodies.push_back(qos(format("q{}", i)));
  EXPECT_TRUE(w.run(together(bodies)).ok());
  bodies.push_back(qos("one-too-many"));
  EXPECT_FALSE(w.run(together(bodies)).ok());
  Qos long_one;
  long_one.meta.name = std::string(10'000, 'x');
  const auto outcome = w.run(together({qos("one"), PutQos{long_one, 0}}));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().field.substr(0, 7), "also[0]");
}

}  // namespace
}  // namespace lockstep
