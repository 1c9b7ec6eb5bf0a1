// Long environments between the controller's end of a link and an agent's real one: whoever shares them, in whatever
// order turns come, the link stays, and each launch comes whole behind its environment.
#include <gtest/gtest.h>

#include "agent/link.h"
#include "base/rng.h"
#include "base/text.h"
#include "controller/links.h"
#include "link/test_streams.h"
#include "model/agent_messages.h"
#include "wire/long_environment.h"

namespace lockstep::sim {
namespace {

class LongEnvironmentsTest : public testing::Test {
 protected:
  LongEnvironmentsTest() {
    LinkHub::Handlers on;
    on.connected = [this](std::uint64_t link, const std::string&, const std::string&, const std::string&) {
      link_ = link;
    };
    on.disconnected = [this](std::uint64_t) { link_ = 0; };
    on.message = [](std::uint64_t, const FromAgent&) {};
    on.welcomed = [](const std::string&) {};
    on.call = [](const std::shared_ptr<HttpExchange>&) {};
    on.in_turn = [this](std::uint32_t uid, std::size_t, std::function<void()> work) {
      turns_[uid].push_back(std::move(work));
    };
    hub_ = std::make_unique<LinkHub>(std::move(on));
    auto [ours, theirs] = MemoryStream::pair();
    hub_->add(std::move(ours), {"n1", "serial", "", ""});
    AgentLink::Handlers at;
    at.message = [this](const ToAgent& message) { heard(message); };
    at.closed = [this](const std::string& why) { closed_ = why; };
    agent_ = std::make_unique<AgentLink>(std::move(theirs), std::move(at));
  }

  void send(ToAgent message, SharedLines environment = nullptr) {
    std::vector<NodeDesk::Outgoing> out;
    out.push_back({link_, std::move(message), std::move(environment)});
    hub_->send(std::move(out));
  }
  // Somebody's oldest turn.
  bool one_turn(Rng& rng) {
    if (turns_.empty())
      return false;
    const auto at = std::next(turns_.begin(), static_cast<std::ptrdiff_t>(rng.below(turns_.size())));
    const auto work = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty())
      turns_.erase(at);
    work();
    return true;
  }
  static LaunchStep launch(std::uint32_t uid, StepNo step, const BlobId& environment) {
    LaunchStep out;
    out.job = JobId(uid);
    out.attempt = 1;
    out.step = step;
    out.process.uid = uid;
    out.process.env_base = environment;
    return out;
  }
  void heard(const ToAgent& message) {
    if (const auto* step = std::get_if<LaunchStep>(&message)) {
      said_[step->job.value].push_back(step->step);
      env_[{step->job.value, step->step}] = step->process.env;
    } else if (const auto* stop = std::get_if<StopWork>(&message)) {
      said_[stop->job.value].push_back(std::get<StepPart>(stop->part.value()).step);
    }
  }

  std::uint64_t link_ = 0;
  std::map<std::uint32_t, std::deque<std::function<void()>>> turns_;  // by user; none is empty
  std::unique_ptr<LinkHub> hub_;
  std::unique_ptr<AgentLink> agent_;
  std::string closed_;
  std::map<std::uint64_t, std::vector<StepNo>> said_;  // by job, in order: what was launched, or stopped
  std::map<std::pair<std::uint64_t, StepNo>, std::vector<std::string>> env_;
};

class SharedLongEnvironmentsTest : public LongEnvironmentsTest, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, SharedLongEnvironmentsTest, testing::Range<std::uint64_t>(1, 41));

TEST_P(SharedLongEnvironmentsTest, ReachEveryLaunchOfEveryUser) {
  Rng rng(GetParam());
  std::vector<SharedLines> known;
  for (std::size_t i = 0; i < 10; ++i)
    known.push_back(std::make_shared<const std::string>(
        format("E{}={}", i, std::string((64u << 10) + rng.below(rng.chance(0.3) ? 12u << 20 : 1u << 20), 'x')) + '\0'));
  std::map<std::uint64_t, std::vector<StepNo>> expected;
  std::map<std::pair<std::uint64_t, StepNo>, std::size_t> named;
  for (StepNo step = 0; step < 60; ++step) {
    const std::uint32_t uid = 1000 + static_cast<std::uint32_t>(rng.below(6));
    if (rng.chance(0.2)) {
      send(StopWork{JobId(uid), 1, StepPart{step}});
    } else {
      const std::size_t which = rng.below(known.size());
      auto message = launch(uid, step, format("id{}", which));
      if (rng.chance(0.3))
        message.process.argv = {"echo", std::string(100u << 10, 'y')};
      named[{uid, step}] = which;
      send(message, known[which]);
    }
    expected[uid].push_back(step);
    for (std::size_t turns = rng.below(6); turns > 0; --turns) one_turn(rng);
  }
  while (one_turn(rng)) {}
  EXPECT_EQ(closed_, "");
  EXPECT_EQ(said_, expected);
  for (const auto& [key, which] : named) {
    ASSERT_EQ(env_[key].size(), 1u);
    EXPECT_EQ(env_[key][0].size() + 1, known[which]->size());
    EXPECT_TRUE(env_[key][0].starts_with(format("E{}=", which)));
  }
}

// What the agent keeps and what begins to come at once are more than it takes: the last ones wait for room.
TEST_F(LongEnvironmentsTest, OfManyUsersAreNoMoreThanTheAgentTakes) {
  Rng rng(1);
  const auto lines = std::make_shared<const std::string>("E=" + std::string((8u << 20) - 3, 'x') + '\0');
  constexpr std::uint32_t kBefore = 4, kAtOnce = 31;
  for (std::uint32_t i = 0; i < kBefore + kAtOnce; ++i) {
    send(launch(1000 + i, 0, format("id{}", i)), lines);
    while (i < kBefore && one_turn(rng)) {}
  }
  EXPECT_GT((kBefore - 1 + kAtOnce) * lines->size(), kLongEnvironmentsMax);
  while (one_turn(rng)) {}
  EXPECT_EQ(closed_, "");
  EXPECT_EQ(said_.size(), kBefore + kAtOnce);
}

}  // namespace
}  // namespace lockstep::sim
