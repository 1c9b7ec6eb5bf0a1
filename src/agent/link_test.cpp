// The agent's end of its connection against a controller that does not keep to the rules of long environments.
#include "agent/link.h"

#include <gtest/gtest.h>

#include "link/mux.h"
#include "link/test_streams.h"
#include "wire/codec.h"
#include "wire/long_environment.h"

namespace lockstep {
namespace {

class AgentLinkTest : public testing::Test {
 protected:
  AgentLinkTest() {
    auto [ours, theirs] = MemoryStream::pair();
    controller_ = Mux::start(std::move(ours), {.frame = [](const Frame&) {}, .closing = {}, .closed = {}});
    AgentLink::Handlers on;
    on.message = [this](ToAgent message) { heard_.push_back(std::move(message)); };
    on.closed = [this](const std::string& why) { closed_ = why; };
    link_ = std::make_unique<AgentLink>(std::move(theirs), std::move(on));
  }
  ~AgentLinkTest() override { controller_->silence(); }

  std::unique_ptr<Stream> announce(std::uint64_t number, const LongEnvironment& head) {
    auto stream = controller_->stream(number);
    controller_->send(LinkFrame::kEnvironment, number, encode(head));
    return stream;
  }
  void launch(const BlobId& environment) {
    LaunchStep step;
    step.process.env_base = environment;
    controller_->send(LinkFrame::kMessage, 0, encode(ToAgent{step}));
  }

  std::string closed_ = "it is not";
  std::vector<ToAgent> heard_;
  std::shared_ptr<Mux> controller_;
  std::unique_ptr<AgentLink> link_;
};

TEST_F(AgentLinkTest, AnEnvironmentThatComesTwiceCostsTheSecondStreamAndNotTheLink) {
  const std::string lines("A=1\0", 4);
  auto first = announce(2, {"one", lines.size(), ""});
  auto second = announce(4, {"one", lines.size(), ""});
  bool refused = false;
  second->on_close([&] { refused = true; });
  EXPECT_TRUE(refused);
  second->write(lines);
  first->write(lines);
  first->close();
  launch("one");
  EXPECT_EQ(closed_, "it is not");
  ASSERT_EQ(heard_.size(), 1u);
  EXPECT_EQ(process_of(heard_[0])->env, std::vector<std::string>{"A=1"});
}

}  // namespace
}  // namespace lockstep
