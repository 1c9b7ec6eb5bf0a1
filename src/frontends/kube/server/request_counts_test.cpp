#include "frontends/kube/server/request_counts.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

// Is answered, and looks at a clock that the test moves.
class Answering final : public FrontVisit {
 public:
  Answering() : context_{tables_, notes_, {}, {}} {}
  const HttpRequest& request() const override { return http; }
  const std::vector<std::string>& names() const override { return names_; }
  const Caller& caller() const override { return caller_; }
  std::shared_ptr<const ReadContext> read() const override { return {std::shared_ptr<void>(), &context_}; }
  BlobId store(std::string) override { return {}; }
  using FrontVisit::commit;
  void commit(std::vector<CommandBody>, lockstep::Reading, std::function<void(Result<Answer>)>) override {}
  void commit_judged(std::vector<CommandBody>, lockstep::Reading, std::function<void(Result<Answer>)>) override {}
  Result<void> aside(std::function<void()>, std::function<void()>) override { return {}; }
  void answer(HttpResponse) override {}
  void refuse(const Error&, int) override {}
  void write(PageReply) override {}
  void stream(HttpResponse, Pull given, Duration) override { pull = std::move(given); }
  std::unique_ptr<Stream> open(HttpResponse) override { return nullptr; }
  void reach(const ContainerAsk&, std::function<void(Result<std::unique_ptr<Stream>>)>) override {}
  std::unique_ptr<Stream> upgrade(const std::string&, const std::map<std::string, std::string>&) override {
    return nullptr;
  }
  void wait(Duration time) { context_.now = context_.now + time; }

  HttpRequest http;
  Pull pull;

 private:
  Tables tables_;
  PlanNotes notes_;
  ReadContext context_;
  std::vector<std::string> names_;
  Caller caller_;
};

struct Counts : testing::Test {
  std::shared_ptr<RequestCounts> counts = std::make_shared<RequestCounts>();
  std::shared_ptr<Answering> visit = std::make_shared<Answering>();

  std::shared_ptr<FrontVisit> ask(const char* verb, const char* resource, const char* name = "", const char* ns = "n") {
    Request request;
    request.visit = visit;
    request.target.verb = verb;
    request.target.version = "v1";
    request.target.resource = resource;
    request.target.name = name;
    request.target.ns = ns;
    return counts->counted(request);
  }
  bool says(const std::string& line) const {
    return ("\n" + counts->metrics()).find("\n" + line + "\n") != std::string::npos;
  }
};

constexpr const char* kGetPod =
    R"({verb="GET",dry_run="",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver")";

TEST_F(Counts, RequestsByWhatCameOfThem) {
  for (const int code : {200, 200, 404}) {
    const auto one = ask("get", "pods", "p");
    EXPECT_TRUE(says("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1"));
    visit->wait(millis(code == 404 ? 300 : 30));
    one->answer({code, "", "", {}});
    EXPECT_TRUE(says("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0"));
  }
  { const auto dropped = ask("create", "pods"); }
  const std::string of = kGetPod;
  EXPECT_TRUE(says("apiserver_request_total" + of + ",code=\"200\"} 2")) << counts->metrics();
  EXPECT_TRUE(says("apiserver_request_total" + of + ",code=\"404\"} 1"));
  EXPECT_TRUE(says("apiserver_request_duration_seconds_bucket" + of + ",le=\"0.05\"} 2"));
  EXPECT_TRUE(says("apiserver_request_duration_seconds_bucket" + of + ",le=\"0.4\"} 3"));
  EXPECT_TRUE(says("apiserver_request_duration_seconds_bucket" + of + ",le=\"+Inf\"} 3"));
  EXPECT_TRUE(says("apiserver_request_duration_seconds_sum" + of + "} 0.36"));
  EXPECT_TRUE(says(
      R"(apiserver_request_total{verb="POST",dry_run="",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver",code="500"} 1)"));
}

TEST_F(Counts, WatchesAsLongAsTheyAreOpen) {
  ask("watch", "pods")
      ->stream(
          {}, [](std::string&) { return Pulled::kNothing; }, seconds(1));
  const std::string open =
      R"(apiserver_longrunning_requests{verb="WATCH",dry_run="",group="",version="v1",resource="pods",subresource="",scope="namespace",component="apiserver"} 1)";
  EXPECT_TRUE(says(open)) << counts->metrics();
  visit->pull = nullptr;
  EXPECT_FALSE(says(open));
  EXPECT_EQ(counts->metrics().find("duration_seconds_count"), std::string::npos) << "a watch takes no time";
}

TEST_F(Counts, FurtherResourcesTogether) {
  for (int i = 0; i < 1000; ++i) ask("list", ("r" + std::to_string(i)).c_str())->answer({200, "", "", {}});
  const std::string text = counts->metrics();
  EXPECT_LT(text.size(), 2u << 20);
  EXPECT_TRUE(says(
      R"(apiserver_request_total{verb="other",dry_run="",group="",version="",resource="other",subresource="",scope="",component="apiserver",code="200"} 800)"));
}

}  // namespace
}  // namespace lockstep::kube
