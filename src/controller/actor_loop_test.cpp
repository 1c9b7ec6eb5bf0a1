#include "controller/actor_loop.h"

#include <gtest/gtest.h>

#include "controller/test_world.h"

namespace lockstep {
namespace {

// Asks once for every change that it sees, and notes what it is told.
class Echo : public Actor {
 public:
  explicit Echo(Mailbox<std::string>& told) : told_(told) {}
  const char* name() const override { return "echo"; }
  void restart(std::span<const Change> snapshot) override { told_.post(format("restart {}", snapshot.size())); }
  void observe(std::span<const Change> changes) override { open_ += changes.size(); }
  Turn step(Instant, ActorBudget) override {
    Turn turn;
    for (; open_ > 0; --open_) turn.asks.push_back({++last_, Tick{}, {.records = {{JobId{last_}, 7}}}});
    turn.notes.push_back({JobId{last_}});
    return turn;
  }
  void answered(std::uint64_t id, const Result<Answer>& answer, Instant) override {
    told_.post(format("answered {} {}", id, answer.ok()));
  }
  Instant next_timer() const override { return open_ > 0 ? Instant{} : kNever; }

 private:
  Mailbox<std::string>& told_;
  std::size_t open_ = 0;
  std::uint64_t last_ = 0;
};

TEST(ActorLoop, WhatIsSeenIsAskedAndAnswered) {
  Mailbox<std::string> told;
  TestClock machine;
  const ClusterClock clock(machine, Instant{1}, {});
  std::vector<std::unique_ptr<Actor>> actors;
  actors.push_back(std::make_unique<Echo>(told));
  ActorLoop loop("test", std::move(actors), std::vector<Change>(3), clock,
                 {[&](Command command, Engine::Reply reply) {
                    const auto& read = command.read.records.at(0);
                    told.post(format("asks {} {}", std::get<JobId>(read.key).value, read.seq));
                    reply(Answer{});
                  },
                  [&](std::vector<PlanNote> notes, Seq as_of) {
                    told.post(format("notes {} as of {}", notes.at(0).job.value, as_of));
                  }});
  loop.start();
  auto batch = std::make_shared<Engine::Batch>();
  auto object = std::make_shared<const Object>();
  batch->changes = {{8, object, false}, {9, object, false}};
  loop.observe(batch);
  std::vector<std::string> seen;
  while (seen.size() < 6)
    for (auto& line : told.take(seconds(10))) seen.push_back(std::move(line));
  loop.stop();
  EXPECT_EQ(seen, (std::vector<std::string>{"restart 3", "notes 2 as of 9", "asks 1 7", "asks 2 7", "answered 1 true",
                                            "answered 2 true"}));
}

}  // namespace
}  // namespace lockstep
