// What clients of a shim may say: true words are believed, invented ones end the client, random ones harm nobody.
#include "shim/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/text.h"

namespace lockstep {
namespace {

std::string number(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

class RelayTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kRanks[] = {4, 9};

  void SetUp() override {
    start_.launch.ranks = {kRanks[0], kRanks[1]};
    start_.launch.process.argv = {"true"};
    for (std::size_t local = 0; local < 2; ++local) {
      tasks_.push_back(std::make_unique<StepTask>(start_, local, OutputLimits{}, "host", "/tmp"));
      ASSERT_TRUE(tasks_.back()->prepare(start_, -1, false).ok());
      tasks_.back()->log(0)->append("0123456789");
    }
  }

  // A client and the other end of its connection.
  struct Pair {
    std::unique_ptr<StepClient> client;
    int peer = -1;
    ~Pair() { ::close(peer); }
  };
  static std::unique_ptr<Pair> connect() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    auto pair = std::make_unique<Pair>();
    pair->client = std::make_unique<StepClient>(ends[0], StepClient::Kind::kUnknown);
    pair->peer = ends[1];
    return pair;
  }

  bool apply(StepClient& client, IoFrame type, std::uint64_t stream, std::string payload) const {
    return apply_frame(tasks_, client, {static_cast<std::uint8_t>(type), stream, std::move(payload)});
  }
  static std::string ack(int fd, std::uint64_t offset) {
    return number(static_cast<std::uint64_t>(fd), 1) + number(offset, 8);
  }

  ShimStart start_;
  StepTasks tasks_;
};

TEST_F(RelayTest, TrueWordsAreBelieved) {
  const auto pair = connect();
  ASSERT_TRUE(apply_attach(*pair->client, tasks_, "{\"have\":{\"4\":[3,0],\"77\":[5,5]}}"));  // 77 is another node's
  EXPECT_EQ(pair->client->ranks[0].outputs[0].sent, 3u);
  pump(tasks_, *pair->client);
  EXPECT_TRUE(apply(*pair->client, IoFrame::kOutputAck, 4, ack(1, 10)));
  EXPECT_TRUE(apply(*pair->client, IoFrame::kStdin, kAllRanks, number(0, 8) + "text"));
  EXPECT_TRUE(apply(*pair->client, IoFrame::kStdinEof, 9, number(4, 8)));
  EXPECT_EQ(pair->client->ranks[0].outputs[0].acked, 10u);
}

// Whoever looks on has what is new and may say something; what is kept for whose step it is stays, and his input, too.
TEST_F(RelayTest, OnlookersChangeNothingForTheOwner) {
  const auto looks = connect();
  StepClients clients;
  clients.push_back(std::move(looks->client));
  StepClient& onlooker = *clients[0];
  ASSERT_TRUE(apply_attach(onlooker, tasks_, R"({"have":{},"onlooker":true})"));
  pump(tasks_, onlooker);
  EXPECT_TRUE(apply(onlooker, IoFrame::kOutputAck, 4, ack(1, 10)));
  trim_outputs(tasks_, clients);
  EXPECT_EQ(tasks_[0]->log(0)->base(), 0u);

  for (int twice = 0; twice < 2; ++twice) EXPECT_TRUE(apply(onlooker, IoFrame::kStdin, 4, number(100, 8) + "hi"));
  EXPECT_TRUE(apply(onlooker, IoFrame::kStdin, 4, number(101, 8) + "it"));
  EXPECT_EQ(tasks_[0]->words_queued(), 3u);
  EXPECT_EQ(tasks_[0]->input_queued(), 0u);
  EXPECT_FALSE(apply(onlooker, IoFrame::kStdin, 4, number(~std::uint64_t{0}, 8) + "it"));
  EXPECT_FALSE(apply(onlooker, IoFrame::kStdin, 7, number(0, 8) + "it"));
  EXPECT_TRUE(apply(onlooker, IoFrame::kStdinEof, 4, number(0, 8)));

  const auto owns = connect();
  clients.push_back(std::move(owns->client));
  StepClient& owner = *clients[1];
  ASSERT_TRUE(apply_attach(owner, tasks_, "{}"));
  pump(tasks_, owner);
  EXPECT_TRUE(apply(owner, IoFrame::kOutputAck, 4, ack(1, 10)));
  EXPECT_TRUE(apply(owner, IoFrame::kStdin, 4, number(0, 8) + "text"));
  EXPECT_EQ(tasks_[0]->input_queued(), 4u);
  trim_outputs(tasks_, clients);
  EXPECT_EQ(tasks_[0]->log(0)->base(), 10u);
}

TEST_F(RelayTest, InventedRanksAndOffsetsAreRefused) {
  const auto pair = connect();
  StepClient& client = *pair->client;
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, 4, ack(1, 1)));  // not attached
  ASSERT_TRUE(apply_attach(client, tasks_, "{}"));
  pump(tasks_, client);
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, 5, ack(1, 1)));
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, 4, ack(1, 11)));
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, kAllRanks, ack(1, 11)));
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, 4, ack(2, 1)));
  EXPECT_FALSE(apply(client, IoFrame::kOutputAck, 4, ack(3, 1)));
  EXPECT_FALSE(apply(client, IoFrame::kStdin, 1'000'000, number(0, 8) + "text"));
  EXPECT_FALSE(apply(client, IoFrame::kStdinEof, 5, number(0, 8)));
  const auto liar = connect();
  EXPECT_FALSE(apply_attach(*liar->client, tasks_, "{\"have\":{\"4\":[11,0]}}"));
  EXPECT_FALSE(liar->client->attached);
}

TEST_F(RelayTest, InputThatNobodyReadsIsBounded) {
  const auto pair = connect();
  const std::string piece(1 << 20, 'x');
  std::uint64_t offset = 0;
  while (apply(*pair->client, IoFrame::kStdin, 4, number(offset, 8) + piece) && offset < (64u << 20))
    offset += piece.size();
  EXPECT_LE(offset, 8u << 20);
}

TEST_F(RelayTest, AFrameThatNeverEndsDoes) {
  const auto pair = connect();
  const std::string head = number(70 << 20, 4) + std::string(60 << 10, 'x');
  std::vector<std::string> lines;
  std::vector<Frame> frames;
  std::size_t sent = 0;
  for (std::string bytes = head; !pair->client->gone() && sent < (60u << 20); bytes.assign(60 << 10, 'x')) {
    ASSERT_EQ(::send(pair->peer, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    pair->client->receive(lines, frames);
    sent += bytes.size();
  }
  EXPECT_LE(sent, 5u << 20);
}

TEST_F(RelayTest, OneWhoAsksAndDoesNotReadIsLeft) {
  const auto pair = connect();
  const std::string piece(1 << 20, 'x');
  int count = 0;
  for (; !pair->client->gone() && count < 100; ++count) pair->client->send(piece);
  EXPECT_LE(count, 10);
}

// Random and half-true words, cut anywhere. What an honest client has not confirmed stays.
TEST_F(RelayTest, RandomWordsHarmNobody) {
  const std::uint32_t kinds = 16;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    StepClients clients;
    const auto honest = connect();
    clients.push_back(std::move(honest->client));
    ASSERT_TRUE(apply_attach(*clients[0], tasks_, "{}"));
    const auto hostile = connect();
    clients.push_back(std::move(hostile->client));
    std::string bytes;
    for (int i = 0; i < 20; ++i) {
      std::string payload;
      for (std::uint64_t n = rng.below(24); n > 0; --n)
        payload.push_back(static_cast<char>(rng.chance(0.5) ? rng.below(12) : rng.below(256)));
      if (rng.chance(0.3))
        payload = format("{{\"have\":{{\"{}\":[{},{}]}}}}", rng.below(12), rng.below(20), rng.below(3));
      const std::uint64_t stream = rng.chance(0.3)   ? kAllRanks
                                   : rng.chance(0.5) ? kRanks[rng.below(2)]
                                                     : rng.below(1 << 20);
      bytes += encode_frame(static_cast<std::uint8_t>(rng.below(kinds)), stream, payload);
      if (rng.chance(0.1))
        bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    }
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < bytes.size() && !clients[1]->gone();) {
      const std::size_t piece = std::min<std::size_t>(bytes.size() - at, 1 + rng.below(200));
      if (::send(hostile->peer, bytes.data() + at, piece, MSG_NOSIGNAL) <= 0)
        break;
      at += piece;
      std::vector<Frame> frames;
      clients[1]->receive(lines, frames);
      for (const Frame& frame : frames)
        if (frame.type == static_cast<std::uint8_t>(IoFrame::kAttach)
                ? !apply_attach(*clients[1], tasks_, frame.payload)
                : !apply_frame(tasks_, *clients[1], frame))
          clients[1]->drop();
      if (!clients[1]->gone())
        pump(tasks_, *clients[1]);
      trim_outputs(tasks_, clients);
    }
    ASSERT_EQ(tasks_[0]->log(0)->base(), 0u) << "seed " << seed;
    ASSERT_EQ(tasks_[1]->log(0)->base(), 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lockstep
