// Connections between agents when a node's certificate stops to count.
#include "agent/peers.h"

#include <gtest/gtest.h>

#include "link/test_streams.h"

namespace lockstep {
namespace {

class PeersTest : public testing::Test {
 protected:
  // Another agent dials us; the result is its end.
  std::unique_ptr<MemoryStream> accept(const std::string& node, const std::string& certificate) {
    auto [ours, theirs] = MemoryStream::pair();
    peers_.accept(std::move(ours), node, certificate);
    loop_.run();
    return std::move(theirs);
  }
  // We want a stream to that node, whose certificate the controller says is this one.
  bool reach(const std::string& node, const std::string& certificate) {
    bool reached = false;
    peers_.open({node, "addr", 1, certificate, {}, {}}, {}, [&](std::unique_ptr<Stream> stream) {
      reached = stream != nullptr;
      streams_.push_back(std::move(stream));
    });
    loop_.run();
    return reached;
  }

  HandLoop loop_;
  std::vector<std::unique_ptr<MemoryStream>> dialed_;
  std::vector<std::unique_ptr<Stream>> streams_;
  Peers peers_{loop_,
               [this](const StepMember&, const Peers::Dialed& done) {
                 auto [ours, theirs] = MemoryStream::pair();
                 dialed_.push_back(std::move(theirs));
                 done(std::move(ours));
               },
               [](const StepOpen&, const std::unique_ptr<Stream>&) {}};
};

TEST_F(PeersTest, ConnectionsOfARevokedNodeAreClosed) {
  const auto old = accept("n2", "c1"), other = accept("n3", "c1");
  ASSERT_TRUE(reach("n2", "c1"));
  EXPECT_TRUE(old->open() && other->open() && dialed_.at(0)->open());
  peers_.revoke("n2", "c2");
  loop_.run();
  EXPECT_FALSE(old->open());
  EXPECT_FALSE(dialed_.at(0)->open());
  EXPECT_TRUE(other->open());
}

TEST_F(PeersTest, ARevokedNodeIsNotLetInAgain) {
  peers_.revoke("n2", "c2");
  EXPECT_FALSE(accept("n2", "c1")->open());
  EXPECT_TRUE(accept("n2", "c2")->open());
  EXPECT_FALSE(reach("n2", "c1"));
  EXPECT_TRUE(reach("n2", "c2"));
  peers_.revoke("n2", "");
  EXPECT_FALSE(accept("n2", "c2")->open());
}

TEST_F(PeersTest, ANewCertificateMeansANewConnection) {
  ASSERT_TRUE(reach("n2", "c1"));
  ASSERT_TRUE(reach("n2", "c1"));
  EXPECT_EQ(dialed_.size(), 1u);
  ASSERT_TRUE(reach("n2", "c2"));
  EXPECT_EQ(dialed_.size(), 2u);
}

}  // namespace
}  // namespace lockstep
