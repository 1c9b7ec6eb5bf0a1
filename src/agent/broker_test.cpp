// The agent's link and API socket, against a controller played by hand.
#include "agent/broker.h"

#include <gtest/gtest.h>

#include "link/test_streams.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

struct Answer {
  HttpResponse response;
  bool answered = false;
  bool declines = false;  // the connection cannot be upgraded, whatever the headers say
  std::string upgraded;
  std::unique_ptr<MemoryStream> client;  // the client's end after an upgrade
  std::function<void()> gone;
};

class TestExchange final : public HttpExchange {
 public:
  TestExchange(std::shared_ptr<Answer> answer, HttpRequest request)
      : answer_(std::move(answer)), request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    EXPECT_FALSE(answer_->answered);
    answer_->answered = true;
    answer_->response = std::move(response);
  }
  std::unique_ptr<Stream> stream(HttpResponse head) override {
    EXPECT_FALSE(answer_->answered);
    answer_->answered = true;
    answer_->response = std::move(head);
    auto [ours, theirs] = MemoryStream::pair();
    answer_->client = std::move(theirs);
    return std::move(ours);
  }
  std::unique_ptr<Stream> upgrade(const std::string& protocol) override {
    EXPECT_FALSE(answer_->answered);
    answer_->answered = true;
    if (answer_->declines)
      return nullptr;
    answer_->upgraded = protocol;
    auto [ours, theirs] = MemoryStream::pair();
    answer_->client = std::move(theirs);
    return std::move(ours);
  }
  void on_gone(std::function<void()> callback) override { answer_->gone = std::move(callback); }

 private:
  std::shared_ptr<Answer> answer_;
  HttpRequest request_;
};

class BrokerTest : public testing::Test {
 protected:
  void TearDown() override {
    broker_.link_down();
    link_.reset();
    loop_.run();
  }
  void connect() {
    auto [ours, theirs] = MemoryStream::pair();
    controller_ = std::move(theirs);
    controller_->on_data([this](std::string_view bytes) {
      ASSERT_TRUE(reader_.feed(bytes, [this](Frame f) { frames_.push_back(std::move(f)); }).ok());
    });
    AgentLink::Handlers handlers;
    handlers.message = [this](ToAgent message) { messages_.push_back(std::move(message)); };
    handlers.open_step = [this](const StepOpen& what, std::unique_ptr<Stream> stream) {
      tickets_.push_back(what.ticket);
      step_streams_.push_back(std::move(stream));
    };
    handlers.closed = [this](const std::string& why) {
      closed_ = why;
      broker_.link_down();
      loop_.post([dead = std::shared_ptr<AgentLink>(std::move(link_))] {});  // as the agent does
    };
    link_ = std::make_unique<AgentLink>(std::move(ours), std::move(handlers));
    broker_.link_up(*link_);
  }
  std::shared_ptr<Answer> request(std::string method, std::string upgrade = {}, std::string body = "{}",
                                  std::uint32_t uid = 1000) {
    HttpRequest request;
    request.method = std::move(method);
    request.path = "/v1/jobs/12_[3-9]";
    request.query = {{"name", "a b&c"}};
    request.body = std::move(body);
    request.peer.uid = uid;
    request.peer.gid = 100;
    request.peer.pid = 77;
    if (!upgrade.empty())
      request.headers["upgrade"] = std::move(upgrade);
    auto answer = std::make_shared<Answer>();
    broker_.request(std::make_shared<TestExchange>(answer, std::move(request)));
    return answer;
  }
  void say(LinkFrame type, std::uint64_t id, std::string payload) {
    controller_->write(encode_frame(static_cast<std::uint8_t>(type), id, payload));
  }
  LinkFrame kind(std::size_t i) const { return static_cast<LinkFrame>(frames_.at(i).type); }

  HandLoop loop_;
  Splices splices_{loop_};
  Broker broker_{loop_, splices_};
  std::unique_ptr<MemoryStream> controller_;
  std::unique_ptr<AgentLink> link_;
  FrameReader reader_;
  std::vector<Frame> frames_;
  std::vector<ToAgent> messages_;
  std::vector<StepTicket> tickets_;
  std::vector<std::unique_ptr<Stream>> step_streams_;
  std::string closed_;
};

TEST_F(BrokerTest, CallCarriesTheKernelsWordAndComesBack) {
  connect();
  const auto answer = request("POST");
  ASSERT_EQ(frames_.size(), 1u);
  EXPECT_EQ(kind(0), LinkFrame::kApiCall);
  EXPECT_EQ(frames_[0].stream % 2, 1u);
  const auto call = decode_api_call(frames_[0].payload);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->target, "/v1/jobs/12_[3-9]?name=a%20b%26c");
  EXPECT_EQ(call->uid, 1000u);
  EXPECT_EQ(call->pid, 77);
  EXPECT_EQ(call->body, "{}");
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{201, "text/plain", "made"}));
  ASSERT_TRUE(answer->answered);
  EXPECT_EQ(answer->response.status, 201);
  EXPECT_EQ(answer->response.body, "made");
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{500, "", ""}));  // doubled: nobody waits any more
}

TEST_F(BrokerTest, RequestsWaitForALinkThenAreRefused) {
  const auto late = request("POST");
  loop_.pass(seconds(9));
  const auto early = request("POST");
  loop_.pass(seconds(1));
  ASSERT_TRUE(late->answered);
  EXPECT_EQ(late->response.status, 503);
  EXPECT_FALSE(early->answered);
  connect();
  EXPECT_EQ(frames_.size(), 1u);
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{200, "", ""}));
  EXPECT_TRUE(early->answered);
  loop_.pass(seconds(20));
}

TEST_F(BrokerTest, ClientThatLeavesWhileWaitingIsForgotten) {
  const auto answer = request("POST");
  answer->gone();
  connect();
  EXPECT_TRUE(frames_.empty());
  EXPECT_FALSE(answer->answered);
}

TEST_F(BrokerTest, ClientThatLeavesDuringItsCallIsTold) {
  connect();
  const auto answer = request("GET");
  answer->gone();
  ASSERT_EQ(frames_.size(), 2u);
  EXPECT_EQ(kind(1), LinkFrame::kStreamClose);
  EXPECT_EQ(frames_[1].stream, frames_[0].stream);
}

TEST_F(BrokerTest, LostLinkRefusesChangesAndRepeatsReads) {
  connect();
  const auto change = request("POST"), read = request("GET");
  controller_->close();
  EXPECT_EQ(change->response.status, 503);
  EXPECT_FALSE(read->answered);
  frames_.clear();
  connect();
  ASSERT_EQ(frames_.size(), 1u);
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{200, "", "again"}));
  EXPECT_EQ(read->response.body, "again");
}

TEST_F(BrokerTest, UpgradeJoinsTheTwoStreams) {
  connect();
  const auto answer = request("GET", "lockstep-stepio/1");
  ASSERT_EQ(kind(0), LinkFrame::kOpenStream);
  const std::uint64_t id = frames_[0].stream;
  say(LinkFrame::kApiReply, id, encode(ApiReply{101, "", ""}));
  ASSERT_EQ(answer->upgraded, "lockstep-stepio/1");
  std::string heard;
  answer->client->on_data([&](std::string_view bytes) { heard += bytes; });
  say(LinkFrame::kStreamData, id, "down");
  EXPECT_EQ(heard, "down");
  EXPECT_EQ(kind(1), LinkFrame::kStreamWindow);
  answer->client->write("up");
  EXPECT_EQ(frames_.back().payload, "up");
  say(LinkFrame::kStreamClose, id, {});
  EXPECT_FALSE(answer->client->open());
  loop_.run();
  EXPECT_EQ(splices_.size(), 0u);
}

TEST_F(BrokerTest, AStreamedAnswerIsPassedOnAsItComes) {
  connect();
  const auto answer = request("GET");
  const std::uint64_t id = frames_[0].stream;
  ApiReply head{200, "text/x-lines", ""};
  head.stream = true;
  head.headers = {{"X-Front", "yes"}};
  say(LinkFrame::kApiReply, id, encode(head));
  ASSERT_TRUE(answer->client);
  EXPECT_EQ(answer->response.content_type, "text/x-lines");
  EXPECT_EQ(answer->response.headers.at("X-Front"), "yes");
  std::string heard;
  answer->client->on_data([&](std::string_view bytes) { heard += bytes; });
  say(LinkFrame::kStreamData, id, "one\n");
  say(LinkFrame::kStreamData, id, "two\n");
  EXPECT_EQ(heard, "one\ntwo\n");
  answer->client->close();  // the client leaves: the controller is told
  loop_.run();
  EXPECT_EQ(frames_.back().stream, id);
  EXPECT_EQ(static_cast<LinkFrame>(frames_.back().type), LinkFrame::kStreamClose);
  EXPECT_EQ(splices_.size(), 0u);
}

// A client tells an answer that has ended from one that was cut off, by the controller or with the link.
TEST_F(BrokerTest, AStreamedAnswerEndsAsTheControllerEndsIt) {
  connect();
  for (const std::string how : {"", "cut", "link lost"}) {
    frames_.clear();
    const auto answer = request("GET");
    const std::uint64_t id = frames_[0].stream;
    ApiReply head{200, "text/x-lines", ""};
    head.stream = true;
    say(LinkFrame::kApiReply, id, encode(head));
    ASSERT_TRUE(answer->client);
    bool ended = false;
    answer->client->on_close([&] { ended = true; });
    say(LinkFrame::kStreamData, id, "nobody reads this");
    if (how == "link lost")
      controller_->close();
    else
      say(LinkFrame::kStreamClose, id, how);
    loop_.run();
    EXPECT_TRUE(ended);
    EXPECT_EQ(answer->client->was_cut(), how != "") << how;
    EXPECT_EQ(splices_.size(), 0u) << how;
  }
}

TEST_F(BrokerTest, ClientThatCannotBeUpgradedAfterAll) {
  connect();
  const auto answer = request("GET", "lockstep-stepio/1");
  answer->declines = true;
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{101, "", ""}));
  EXPECT_TRUE(answer->answered);
  EXPECT_EQ(splices_.size(), 0u);
  EXPECT_EQ(static_cast<LinkFrame>(frames_.back().type), LinkFrame::kStreamClose);
}

TEST_F(BrokerTest, RefusedUpgradeIsAnOrdinaryAnswer) {
  connect();
  const auto answer = request("GET", "lockstep-stepio/1");
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{404, "application/json", "{}"}));
  EXPECT_EQ(answer->response.status, 404);
  EXPECT_TRUE(answer->upgraded.empty());
}

TEST_F(BrokerTest, StreamSendsNoMoreThanItsCredit) {
  connect();
  say(LinkFrame::kOpenStream, 2, encode(StepOpen{{JobId(5), 1, 0}, {}, {}}));
  ASSERT_EQ(step_streams_.size(), 1u);
  EXPECT_EQ(tickets_[0].job, JobId(5));
  step_streams_[0]->write(std::string(3 << 20, 'x'));
  std::size_t sent = 0;
  for (const auto& f : frames_) sent += f.payload.size();
  EXPECT_EQ(sent, std::size_t{1} << 20);
  EXPECT_EQ(step_streams_[0]->unsent(), std::size_t{2} << 20);
  bool drained = false;
  step_streams_[0]->on_drained([&] { drained = true; });
  std::string credit(8, '\0');
  credit[5] = 0x20;  // 2 MiB
  say(LinkFrame::kStreamWindow, 2, credit);
  EXPECT_TRUE(drained);
  step_streams_.clear();
  EXPECT_EQ(static_cast<LinkFrame>(frames_.back().type), LinkFrame::kStreamClose);
}

TEST_F(BrokerTest, BadFramesFromTheController) {
  connect();
  say(LinkFrame::kOpenStream, 3, encode(StepOpen{{JobId(5), 1, 0}, {}, {}}));  // our half of the numbers
  say(LinkFrame::kOpenStream, 4, "nonsense");
  EXPECT_TRUE(tickets_.empty());
  EXPECT_EQ(frames_.size(), 2u);  // both refused
  say(LinkFrame::kStreamData, 99, "to nobody");
  say(LinkFrame::kStreamWindow, 99, "short");
  say(LinkFrame::kStreamClose, 99, {});
  say(LinkFrame::kApiCall, 98, {});
  EXPECT_TRUE(closed_.empty());
  say(LinkFrame::kMessage, 0, encode(ToAgent(ReportAck{{1}})));
  EXPECT_EQ(messages_.size(), 1u);
  say(LinkFrame::kMessage, 0, "{\"half\":");
  EXPECT_FALSE(closed_.empty());
}

TEST_F(BrokerTest, LongBodyFollowsItsCallAsAStream) {
  connect();
  const std::string body((3 << 20) + 5, 'b');
  const auto answer = request("POST", {}, body);
  ASSERT_EQ(kind(0), LinkFrame::kApiCall);
  const auto call = decode_api_call(frames_[0].payload);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->bytes, body.size());
  EXPECT_TRUE(call->body.empty());
  const std::uint64_t id = frames_[0].stream;
  for (int i = 0; i < 4; ++i) say(LinkFrame::kStreamWindow, id, std::string("\0\0\0\0\0\x10\0\0", 8));
  std::string sent;
  for (const auto& f : frames_) {
    EXPECT_LE(f.payload.size(), std::size_t{64} << 10);
    if (f.type == static_cast<std::uint8_t>(LinkFrame::kStreamData))
      sent += f.payload;
  }
  EXPECT_TRUE(sent == body);
  say(LinkFrame::kApiReply, id, encode(ApiReply{201, "", "made"}));
  EXPECT_EQ(answer->response.body, "made");
}

TEST_F(BrokerTest, LongAnswerIsCollected) {
  connect();
  const auto answer = request("GET"), other = request("GET");
  const std::uint64_t id = frames_[0].stream;
  say(LinkFrame::kApiReply, id, encode(ApiReply{200, "text/plain", "", 1'500'000}));
  say(LinkFrame::kStreamData, id, std::string(1 << 20, 'a'));
  say(LinkFrame::kApiReply, frames_[1].stream, encode(ApiReply{200, "", "short"}));
  EXPECT_EQ(other->response.body, "short");
  EXPECT_FALSE(answer->answered);
  say(LinkFrame::kStreamData, id, std::string(1'500'000 - (1 << 20), 'z'));
  ASSERT_TRUE(answer->answered);
  EXPECT_EQ(answer->response.body.size(), 1'500'000u);
  EXPECT_EQ(answer->response.content_type, "text/plain");
  EXPECT_EQ(answer->response.body.back(), 'z');
}

TEST_F(BrokerTest, AnswersThatNobodyHasRoomForAreRefused) {
  connect();
  const auto answer = request("GET");
  say(LinkFrame::kApiReply, frames_[0].stream, encode(ApiReply{200, "", "", std::uint64_t{1} << 40}));
  ASSERT_TRUE(answer->answered);
  EXPECT_EQ(answer->response.status, 429);
  EXPECT_EQ(kind(frames_.size() - 1), LinkFrame::kStreamClose);
  const auto cut = request("GET");
  say(LinkFrame::kApiReply, frames_.back().stream, encode(ApiReply{200, "", "", 100'000}));
  say(LinkFrame::kStreamClose, frames_[frames_.size() - 1].stream, {});
  EXPECT_EQ(cut->response.status, 500);
}

TEST_F(BrokerTest, LongBodyOfAnUpgradeIsRefusedHere) {
  connect();
  const auto answer = request("POST", "lockstep-stepio/1", std::string(1 << 20, 'b'));
  EXPECT_EQ(answer->response.status, 400);
  EXPECT_TRUE(frames_.empty());
}

TEST_F(BrokerTest, OneUsersRequestsLeaveRoomForOthersAndRoot) {
  connect();
  std::vector<std::shared_ptr<Answer>> flood;
  for (std::uint32_t uid : {1001u, 1002u, 1003u, 1004u, 1005u})
    for (int i = 0; i < 4100; ++i) flood.push_back(request("GET", {}, "", uid));
  EXPECT_EQ(flood[4099]->response.status, 503);
  EXPECT_EQ(flood[4099]->response.headers.at("Retry-After"), "1");
  EXPECT_FALSE(request("GET", {}, "", 1006)->answered);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(request("GET", {}, "", 0)->answered);
}

TEST_F(BrokerTest, OversizedFrameEndsTheLink) {
  connect();
  controller_->write(std::string("\x7f\xff\xff\xff\x01", 5) + std::string(8, '\0'));
  EXPECT_FALSE(closed_.empty());
  EXPECT_FALSE(controller_->open());
}

TEST_F(BrokerTest, SlowReaderPausesTheOtherSide) {
  auto [a, a_peer] = MemoryStream::pair();
  auto [b, b_peer] = MemoryStream::pair();
  splices_.join(std::move(a), std::move(b));
  a_peer->write(std::string(2 << 20, 'x'));  // nobody reads at b's far end yet
  a_peer->write("y");
  EXPECT_EQ(a_peer->unsent(), 1u);
  std::string heard;
  b_peer->on_data([&](std::string_view bytes) { heard += bytes; });
  EXPECT_EQ(heard.size(), (std::size_t{2} << 20) + 1);
  a_peer->close();
  EXPECT_FALSE(b_peer->open());
  loop_.run();
  EXPECT_EQ(splices_.size(), 0u);
}

}  // namespace
}  // namespace lockstep
