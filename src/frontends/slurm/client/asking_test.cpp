// What a command bears when the controller is away, silent, or dies over a request.
#include "frontends/slurm/client/asking.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "frontends/slurm/client/scontrol_verbs.h"
#include "wire/codec.h"

namespace lockstep::slurm {
namespace {

// A controller that is lost over the first so many requests.
struct Failing {
  int losses = 0, losses_behind_agent = 0;
  Errc why = Errc::kUnavailable;
  std::vector<std::string> asked, bodies;
  std::vector<Duration> timeouts;
  std::string told;
  bool silent = false;
  ClientContext context;

  struct Client final : ApiClient {
    explicit Client(Failing& f) : failing(f) {}
    Result<Reply> call(std::string_view method, std::string_view target, std::string_view body,
                       Duration timeout) override {
      failing.bodies.emplace_back(body);
      failing.asked.push_back(format("{} {}", method, target));
      failing.timeouts.push_back(timeout);
      if (failing.silent && tell)
        tell();
      if (failing.losses_behind_agent-- > 0)
        return Reply{503, "application/json", encode_error({Errc::kUnavailable, "it went away", kControllerLost})};
      if (failing.losses-- > 0)
        return Error{failing.why, "the connection broke", {}};
      return Reply{200, "text/plain", "ok"};
    }
    Result<int> upgrade(std::string_view, std::string_view, std::string_view) override { return not_found("io"); }
    void on_silence(Duration, std::function<void()> what) override { tell = std::move(what); }
    Failing& failing;
    std::function<void()> tell;
  };
  Failing() {
    context.connect = [this] { return std::unique_ptr<ApiClient>(new Client(*this)); };
    context.tell = [this](std::string_view text) { told += text; };
  }
};

TEST(Asking, AQueryIsAskedAgain) {
  Failing controller;
  controller.losses = 2;
  Asking line(controller.context);
  const auto reply = line.call("GET", "/x", {}, {});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(controller.asked.size(), 3u);
  EXPECT_EQ(controller.timeouts.back(), controller.context.message_timeout);
}

TEST(Asking, ASubmissionIsSentOnceAndItsFateIsSaidToBeUnknown) {
  Failing controller;
  controller.losses = 1;
  Asking line(controller.context);
  const auto reply = line.call("POST", "/v1/jobs", "{}", {});
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().message,
            "the connection broke. Whether it was carried out is not known: look before you ask for it again");
  EXPECT_EQ(controller.asked.size(), 1u);
  EXPECT_EQ(controller.timeouts.back(), controller.context.answer_timeout);
  EXPECT_GT(controller.context.answer_timeout, controller.context.message_timeout);
  EXPECT_LT(controller.context.answer_timeout, kForever);
}

TEST(Asking, TheFateOfWhatIsNotAnsweredInTimeIsUnknownToo) {
  Failing controller;
  controller.losses = 2;
  controller.why = Errc::kTimeout;
  Asking line(controller.context);
  EXPECT_NE(line.call("POST", "/v1/jobs", "{}", {}).error().message.find("is not known"), std::string::npos);
  EXPECT_EQ(line.call("GET", "/x", {}, {}).error().message.find("is not known"), std::string::npos);
}

TEST(Asking, ASubmissionWithANameIsSentAgainUntilItsFateIsKnown) {
  Failing controller;
  controller.losses = 2;
  Asking line(controller.context);
  ASSERT_TRUE(line.call("POST", "/v1/jobs?request=x", "{}", {}, true).ok());
  EXPECT_EQ(controller.asked, std::vector<std::string>(3, "POST /v1/jobs?request=x"));
  // The controller does not come back in time.
  controller.losses = 1'000'000;
  controller.context.patience = millis(1);
  const auto lost = line.call("POST", "/v1/jobs?request=y", "{}", {}, true);
  ASSERT_FALSE(lost.ok());
  EXPECT_NE(lost.error().message.find("is not known"), std::string::npos) << lost.error().message;
  // It breaks over the first, and there is none any more: it may have been carried out all the same.
  Failing gone;
  gone.losses = 1;
  Asking other(gone.context);
  const auto connect = gone.context.connect;
  int connections = 0;
  gone.context.connect = [&]() -> Result<std::unique_ptr<ApiClient>> {
    if (connections++ > 0)
      return Error{Errc::kUnavailable, "nobody listens", {}};
    return connect();
  };
  const auto unknown = other.call("POST", "/v1/jobs?request=z", "{}", {}, true);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("nobody listens. Whether"), std::string::npos) << unknown.error().message;
}

TEST(Asking, AnUpdateIsSentAgainSinceTwiceComesToTheSame) {
  Failing controller;
  controller.losses = 2;
  EXPECT_EQ(scontrol_update({controller.context}, {"jobid=12", "comment=x"}), 0);
  EXPECT_EQ(controller.asked, std::vector<std::string>(3, "POST /v1/jobs/12/update"));
  EXPECT_EQ(std::set<std::string>(controller.bodies.begin(), controller.bodies.end()).size(), 1u);
  controller.asked.clear();
  controller.losses_behind_agent = 1;
  EXPECT_EQ(scontrol_update({controller.context}, {"nodename=n1", "weight=3"}), 0);
  EXPECT_EQ(controller.asked, std::vector<std::string>(2, "POST /v1/nodes/n1"));
}

// A step that waits for room: what has a name is asked for again, however long the answer may take.
TEST(Asking, WhatHasANameIsAskedForAgainAlsoWhenItMayTakeForever) {
  Failing controller;
  controller.losses = 2;
  Asking line(controller.context);
  ASSERT_TRUE(line.call("POST", "/v1/jobs/1/steps?request=z", "{}", kForever, true).ok());
  EXPECT_EQ(controller.asked.size(), 3u);
  controller.losses = 1;
  EXPECT_FALSE(line.call("POST", "/v1/jobs/1/steps", "{}", kForever).ok());
}

TEST(Asking, WhatIsLostBehindAnAgentIsAskedForAgainToo) {
  Failing controller;
  Asking line(controller.context);
  const auto status = [&](const char* method, bool is_named) {
    controller.asked.clear();
    controller.losses_behind_agent = 2;
    const auto reply = line.call(method, "/v1/jobs", "{}", {}, is_named);
    return reply ? reply->status : 0;
  };
  EXPECT_EQ(status("POST", true), 200);
  EXPECT_EQ(controller.asked.size(), 3u);
  EXPECT_EQ(status("GET", false), 200);
  EXPECT_EQ(controller.asked.size(), 3u);
  EXPECT_EQ(status("POST", false), 503) << "it has no name: nobody knows whether it was carried out";
  EXPECT_EQ(controller.asked.size(), 1u);
}

TEST(Asking, ABodyThatTellsTheTimeIsMadeForEachSending) {
  Failing controller;
  controller.losses = 2;
  Asking line(controller.context);
  int made = 0;
  std::string body;
  const auto as_sent = [&]() -> std::string_view { return body = format("{}", ++made); };
  ASSERT_TRUE(line.call_as_sent("POST", "/v1/jobs/1/end", as_sent, {}, true).ok());
  EXPECT_EQ(made, 3);
  EXPECT_EQ(controller.bodies, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(Asking, WhoTriesAgainByItselfIsNotHeldUp) {
  Failing controller;
  controller.losses = 1;
  Asking line(controller.context, Bearing::kAtOnce);
  EXPECT_FALSE(line.call("GET", "/x", {}, {}).ok());
  EXPECT_EQ(controller.asked.size(), 1u);
}

TEST(Asking, PatienceEnds) {
  Failing controller;
  controller.losses = 1'000'000;
  controller.context.patience = millis(1);
  Asking line(controller.context);
  EXPECT_FALSE(line.call("GET", "/x", {}, {}).ok());
}

TEST(Asking, SilenceIsToldOfOrdinaryRequestsOnly) {
  Failing controller;
  controller.silent = true;
  Asking line(controller.context);
  ASSERT_TRUE(line.call("GET", "/wait", {}, seconds(90)).ok());
  EXPECT_EQ(controller.told, "");
  EXPECT_EQ(controller.timeouts.back(), seconds(90));
  ASSERT_TRUE(line.call("POST", "/v1/jobs", "{}", {}).ok());
  EXPECT_EQ(controller.told, "waiting for the controller, which has not answered for 3 s");
}

}  // namespace
}  // namespace lockstep::slurm
