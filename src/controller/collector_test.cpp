#include "controller/collector.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "core/testing.h"
#include "model/job.h"

namespace lockstep {
namespace {

// A core, and collectors beside it that read it when they are told to.
class Collecting : public ::testing::Test {
 protected:
  void SetUp() override { restart(collector); }

  static Object object_of(const std::string& name) {
    Object object;
    object.type = "x/A";
    object.meta.name = name;
    return object;
  }
  void put(const std::string& name, std::vector<std::string> owners = {}, bool blocks = false,
           std::vector<std::string> finalizers = {}) {
    Object object = object_of(name);
    auto extra = std::make_shared<MetaExtra>();
    for (const std::string& owner : owners)
      extra->owners.push_back({Kind::kObject, uids.at(owner), owner, extra->owners.empty(), blocks});
    extra->finalizers = std::move(finalizers);
    object.meta.extra = std::move(extra);
    w.must(PutObject{object, 0});
    if (const auto it = w.state.tables().objects.find({"x/A", "", name}); it != w.state.tables().objects.end())
      uids[name] = it->second->meta.uid;
  }
  JobId submit(const std::string& owner, bool shown) {
    SubmitJob ask{.spec = std::make_shared<const JobSpec>(World::batch())};
    ask.objects = {object_of(owner)};
    if (shown)
      ask.objects[0].shows = {{.kind = Kind::kJob}};
    return w.submit(ask);
  }
  void remove(const std::string& name, RemoveObject::Dependents how = RemoveObject::Dependents::kBackground) {
    w.must(RemoveObject{"x/A", "", name, 0, how});
  }
  std::string names() const {
    std::string out;
    for (const auto& [key, object] : w.state.tables().objects)
      out += (out.empty() ? "" : " ") + object->meta.name +
             (object->meta.extra && object->meta.extra->deleting ? "-" : "");
    return out;
  }

  void restart(Collector& one) {
    one.restart(w.state.tables().snapshot());
    read[&one] = w.history.size();
  }
  void observe(Collector& one) {
    one.observe(std::span(w.history).subspan(read[&one]));
    read[&one] = w.history.size();
  }
  // Carries out what it asks; how many of its commands were taken.
  std::size_t step(Collector& one, ActorBudget budget = {}) {
    std::size_t taken = 0;
    for (auto& ask : one.step(now, budget).asks) {
      const auto outcome = w.run(std::move(ask.body), kController, std::move(ask.read));
      taken += outcome.ok();
      observe(one);
      one.answered(ask.id, outcome.ok() ? Result<Answer>(outcome->answer) : Result<Answer>(outcome.error()), now);
    }
    return taken;
  }
  void rest(Collector& one) {
    observe(one);
    for (int i = 0; one.next_timer() < kNever; ++i) {
      ASSERT_LT(i, 1000) << "it goes on for ever";
      now = std::max(now, one.next_timer());
      step(one);
      w.obey();
      observe(one);
    }
  }

  World w{2};
  Collector collector;
  std::map<Collector*, std::size_t> read;
  std::map<std::string, Uid> uids;
  Instant now = kStart;
  static constexpr Instant kStart{1'000'000};
};

TEST_F(Collecting, WhatHasLostItsOwnersGoes) {
  put("a");
  put("other");
  put("b", {"a"});
  put("c", {"b"});
  put("shared", {"a", "other"});
  put("free");
  rest(collector);
  EXPECT_EQ(names(), "a b c free other shared");
  remove("a");
  EXPECT_EQ(names(), "b c free other shared");
  rest(collector);
  EXPECT_EQ(names(), "free other shared");
}

TEST_F(Collecting, TheForegroundWaitsForWhatBlocks) {
  put("a");
  put("b", {"a"}, true, {"mine"});
  put("c", {"a"}, false, {"mine"});
  remove("a", RemoveObject::Dependents::kForeground);
  rest(collector);
  EXPECT_EQ(names(), "a- b- c-");
  put("b", {"a"}, true);  // its finalizer is off
  rest(collector);
  EXPECT_EQ(names(), "c-");  // which does not block
}

std::vector<std::string> owner_names(const World& w, const std::string& name) {
  std::vector<std::string> out;
  const Object& object = *w.state.tables().objects.at({"x/A", "", name});
  for (const OwnerRef& owner : object.meta.extra->owners) out.push_back(owner.name);
  return out;
}

// Whoever has another owner forgets the one that goes, which does not wait for him.
TEST_F(Collecting, TheForegroundDoesNotWaitForWhatStays) {
  put("a");
  put("other");
  put("shared", {"a", "other"}, true);
  put("own", {"a"}, true);
  remove("a", RemoveObject::Dependents::kForeground);
  rest(collector);
  EXPECT_EQ(names(), "other shared");
  EXPECT_EQ(owner_names(w, "shared"), std::vector<std::string>{"other"});
}

TEST_F(Collecting, AnOwnerThatIsGoneIsForgotten) {
  put("a");
  put("other", {}, false, {"mine"});
  put("shared", {"a", "other"});
  remove("a");
  remove("other");  // its finalizer keeps it, and so what it owns
  rest(collector);
  EXPECT_EQ(names(), "other- shared");
  EXPECT_EQ(owner_names(w, "shared"), std::vector<std::string>{"other"});
}

// Only what waits itself has its own dependents waited for.
TEST_F(Collecting, InTheBackgroundTheMiddleGoesFirst) {
  put("a");
  put("b", {"a"});
  put("c", {"b"}, true, {"mine"});
  rest(collector);
  remove("a");
  rest(collector);
  EXPECT_EQ(names(), "c-");
}

TEST_F(Collecting, NobodyOwnsInAnotherRoom) {
  Object owner = object_of("a");
  owner.meta.ns = "room";
  w.must(PutObject{owner, 0});
  uids["a"] = w.state.tables().objects.at({"x/A", "room", "a"})->meta.uid;
  put("everywhere", {"a"});
  Object elsewhere = object_of("b");
  elsewhere.meta.ns = "other";
  auto extra = std::make_shared<MetaExtra>();
  extra->owners.push_back({Kind::kObject, uids["a"], "a", true, false});
  elsewhere.meta.extra = extra;
  w.must(PutObject{elsewhere, 0});
  rest(collector);
  EXPECT_EQ(names(), "everywhere a");
}

TEST_F(Collecting, ACircleOfOwnersIsNoObstacle) {
  put("a");
  put("b", {"a"}, true);
  put("c", {"b"}, true);
  put("a", {"c"}, true);
  remove("a", RemoveObject::Dependents::kForeground);
  rest(collector);
  EXPECT_EQ(names(), "");
}

TEST_F(Collecting, OrphansStay) {
  put("a");
  put("b", {"a"});
  const JobId job = submit("a", false);
  remove("a", RemoveObject::Dependents::kOrphan);
  rest(collector);
  EXPECT_EQ(names(), "b");
  EXPECT_TRUE(w.state.tables().objects.begin()->second->meta.extra->owners.empty());
  EXPECT_FALSE(w.job(job).meta.extra);
  w.settle();
  EXPECT_EQ(w.state_of(job), JobState::kRunning);
}

TEST_F(Collecting, AJobEndsWithWhatItWasMadeFor) {
  const JobId job = submit("pod", true);
  w.settle();
  remove("pod");
  EXPECT_EQ(names(), "pod-");
  rest(collector);
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
  EXPECT_EQ(names(), "");
}

TEST_F(Collecting, AJobsGrantsAreFreeWhateverFinalizerStays) {
  const JobId job = submit("pod", true);
  put("pod", {}, false, {"mine"});
  w.settle();
  remove("pod");
  rest(collector);
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
  EXPECT_EQ(names(), "pod-");
}

// A job that is on its way out is told so once, however long it takes.
TEST_F(Collecting, AnEndIsAskedForOnce) {
  const JobId job = submit("pod", true);
  w.settle();
  remove("pod");
  observe(collector);
  EXPECT_EQ(step(collector), 1u);
  EXPECT_EQ(w.state_of(job), JobState::kCompleting);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(collector), 0u);
  EXPECT_EQ(collector.next_timer(), kNever);
}

TEST_F(Collecting, AFewAtATime) {
  put("a");
  for (int i = 0; i < 100; ++i) put(format("b{:03}", i), {"a"});
  rest(collector);
  remove("a");
  observe(collector);
  for (int i = 0; !w.state.tables().objects.empty() && i < 1000; ++i)
    EXPECT_LE(step(collector, {.looks = 10, .commands = 4}), 4u);
  EXPECT_EQ(names(), "");
}

TEST_F(Collecting, ABadDayOfTheLogIsWaitedFor) {
  put("a");
  put("b", {"a"});
  rest(collector);
  remove("a");
  observe(collector);
  const auto turn = collector.step(now, {});
  ASSERT_EQ(turn.asks.size(), 1u);
  EXPECT_EQ(collector.next_timer(), kNever);
  collector.answered(turn.asks[0].id, Error{Errc::kUnavailable, "read-only", {}}, now);
  EXPECT_GT(collector.next_timer(), now);
  rest(collector);
  EXPECT_EQ(names(), "");
}

// Whoever begins anew in the middle, or beside another one, ends where that one would have.
TEST_F(Collecting, TwoOfThemDoWhatOneDoes) {
  Collector twin;
  put("a");
  put("b", {"a"}, true);
  put("c", {"b"}, true);
  put("d", {"c"}, false);
  const JobId job = submit("pod", true);
  remove("a", RemoveObject::Dependents::kForeground);
  remove("pod");
  restart(twin);
  observe(collector);
  for (int i = 0; i < 200; ++i) {  // each by what it has read
    now = now + millis(20);
    if (i % 3 == 0)
      observe(twin);
    if (i % 50 == 49)
      restart(collector);
    step(collector);
    step(twin);
  }
  rest(collector);
  rest(twin);
  EXPECT_EQ(names(), "");
  EXPECT_EQ(w.state_of(job), JobState::kCancelled);
}

}  // namespace
}  // namespace lockstep
