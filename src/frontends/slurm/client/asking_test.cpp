// What a command bears when the controller is away, silent, or dies over a request.
#include "frontends/slurm/client/asking.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

// A controller that is lost over the first so many requests.
struct Failing {
  int losses = 0;
  std::vector<std::string> asked;
  std::vector<Duration> timeouts;
  std::string told;
  bool silent = false;
  ClientContext context;

  struct Client final : ApiClient {
    explicit Client(Failing& f) : failing(f) {}
    Result<Reply> call(std::string_view method, std::string_view target, std::string_view, Duration timeout) override {
      failing.asked.push_back(format("{} {}", method, target));
      failing.timeouts.push_back(timeout);
      if (failing.silent && tell)
        tell();
      if (failing.losses-- > 0)
        return Error{Errc::kUnavailable, "the connection broke", {}};
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
  EXPECT_EQ(controller.timeouts.back(), kForever);  // its answer is worth waiting for
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
}  // namespace lockstep
