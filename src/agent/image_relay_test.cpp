// A program's wish for an image, between a controller and another agent that are played by hand.
#include "agent/image_relay.h"

#include <gtest/gtest.h>

#include "agent/broker.h"
#include "link/test_streams.h"
#include "wire/codec.h"

namespace lockstep {
namespace {

struct ImageAnswer {
  int status = 0;
  std::string body;
  std::unique_ptr<MemoryStream> program;  // its end, once upgraded
};

class ImageAsked final : public HttpExchange {
 public:
  ImageAsked(std::shared_ptr<ImageAnswer> answer, HttpRequest request)
      : answer_(std::move(answer)), request_(std::move(request)) {}
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    answer_->status = response.status;
    answer_->body = response.body;
  }
  std::unique_ptr<Stream> stream(HttpResponse) override { return nullptr; }
  std::unique_ptr<Stream> upgrade(const std::string& protocol) override {
    EXPECT_EQ(protocol, kImageProtocol);
    answer_->status = 101;
    auto [ours, theirs] = MemoryStream::pair();
    answer_->program = std::move(theirs);
    return std::move(ours);
  }
  void on_gone(std::function<void()>) override {}

 private:
  std::shared_ptr<ImageAnswer> answer_;
  HttpRequest request_;
};

class ImageRelayTest : public testing::Test {
 protected:
  void SetUp() override {
    broker_.use_images(relay_);
    auto [ours, theirs] = MemoryStream::pair();
    controller_ = std::move(theirs);
    controller_->on_data([this](std::string_view bytes) {
      ASSERT_TRUE(reader_.feed(bytes, [this](Frame frame) { calls_.push_back(std::move(frame)); }).ok());
    });
    link_ = std::make_unique<AgentLink>(
        std::move(ours), AgentLink::Handlers{[](ToAgent) {}, [](StepOpen, auto) {}, [](const std::string&) {}});
    broker_.link_up(*link_);
  }
  void TearDown() override {
    broker_.link_down();
    link_.reset();
    loop_.run();
  }

  std::shared_ptr<ImageAnswer> ask(std::uint32_t uid) {
    HttpRequest request;
    request.method = "GET";
    request.path = "/v1/steps/7.0/image_source";
    request.query = {{"hop", "0"}};
    request.headers["upgrade"] = kImageProtocol;
    request.peer.uid = uid;
    auto answer = std::make_shared<ImageAnswer>();
    broker_.request(std::make_shared<ImageAsked>(answer, std::move(request)));
    return answer;
  }
  void reply(int status, const std::string& body) {
    ASSERT_FALSE(calls_.empty());
    controller_->write(encode_frame(static_cast<std::uint8_t>(LinkFrame::kApiReply), calls_.back().stream,
                                    encode(ApiReply{status, "application/json", body})));
    loop_.run();
  }
  static StepMember member_for(std::uint32_t uid, std::uint8_t verbs) {
    StepMember member;
    member.node = "n1";
    member.address = "addr";
    member.port = 1;
    member.ticket.node = "n1";
    member.ticket.uid = uid;
    member.ticket.verbs = verbs;
    return member;
  }

  HandLoop loop_;
  Splices splices_{loop_};
  std::vector<std::unique_ptr<MemoryStream>> dialed_;
  bool away_ = false;
  Peers peers_{loop_,
               [this](const StepMember&, const Peers::Dialed& done) {
                 if (away_)
                   return done(Error{Errc::kUnavailable, "nobody there", {}});
                 auto [ours, theirs] = MemoryStream::pair();
                 dialed_.push_back(std::move(theirs));
                 done(std::move(ours));
               },
               [](const StepOpen&, const std::unique_ptr<Stream>&) {}};
  ImageRelay relay_{peers_, splices_};
  Broker broker_{loop_, splices_};
  std::unique_ptr<MemoryStream> controller_;
  std::unique_ptr<AgentLink> link_;
  FrameReader reader_;
  std::vector<Frame> calls_;
};

TEST_F(ImageRelayTest, TheProgramIsJoinedWithTheNodeThatTheControllerNames) {
  const auto answer = ask(1000);
  ASSERT_EQ(calls_.size(), 1u);
  const auto call = decode_api_call(calls_[0].payload);
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->upgrade, "");  // the controller answers, and carries nothing
  EXPECT_EQ(call->uid, 1000u);
  reply(200, encode(StepRoute{{member_for(1000, kStepImages)}}));
  EXPECT_EQ(answer->status, 101);
  ASSERT_EQ(dialed_.size(), 1u);
}

TEST_F(ImageRelayTest, ATicketForAnythingElseOpensNothing) {
  for (const StepMember& member : {member_for(1001, kStepImages), member_for(1000, kStepEverything),
                                   member_for(1000, kStepImages | kStepOutput)}) {
    const auto answer = ask(1000);
    reply(200, encode(StepRoute{{member}}));
    EXPECT_EQ(answer->status, 403);
  }
  EXPECT_TRUE(dialed_.empty());
}

TEST_F(ImageRelayTest, RefusalsReachTheProgram) {
  auto answer = ask(1000);
  reply(404, R"({"error":"the first one"})");
  EXPECT_EQ(answer->status, 404);
  for (const char* route : {"", "{}", "[]", R"({"members":[]})"}) {
    answer = ask(1000);
    reply(200, route);
    EXPECT_EQ(answer->status, 503) << route;
  }
  away_ = true;
  answer = ask(1000);
  reply(200, encode(StepRoute{{member_for(1000, kStepImages)}}));
  EXPECT_EQ(answer->status, 503);
  EXPECT_NE(answer->body.find("node n1 cannot be reached"), std::string::npos) << answer->body;
}

}  // namespace
}  // namespace lockstep
