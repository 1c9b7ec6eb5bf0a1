#include "frontends/kube/server/shown_texts.h"

#include <gtest/gtest.h>

#include "frontends/kube/kinds/types.h"
#include "frontends/kube/server/shown.h"
#include "model/job.h"

namespace lockstep::kube {
namespace {

// Who only reads.
class Looker final : public FrontVisit {
 public:
  explicit Looker(const Tables& tables) : context_{tables, notes_, {}, {}} {}
  const HttpRequest& request() const override { return http_; }
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
  void stream(HttpResponse, Pull, Duration) override {}
  std::unique_ptr<Stream> open(HttpResponse) override { return nullptr; }
  void reach(const ContainerAsk&, std::function<void(Result<std::unique_ptr<Stream>>)>) override {}
  std::unique_ptr<Stream> upgrade(const std::string&, const std::map<std::string, std::string>&) override {
    return nullptr;
  }

 private:
  HttpRequest http_;
  std::vector<std::string> names_;
  Caller caller_;
  PlanNotes notes_;
  ReadContext context_;
};

struct Texts : testing::Test {
  Tables tables;
  Request request;
  Job job;
  Seq seq = 0;

  Texts() {
    request.visit = std::make_shared<Looker>(tables);
    request.api_version = "v1";
    for (Kind& kind : built_in_kinds())
      if (kind.type == kPods)
        request.kind = std::make_shared<const Kind>(std::move(kind));
    job.id = JobId(7);
    job.spec = std::make_shared<const JobSpec>();
    job.state = JobState::kRunning;
    put_job();
  }
  void put_job() {
    job.meta.seq = ++seq;
    tables.apply({seq, std::make_shared<const Job>(job), false});
  }
  Object pod(const std::string& name) {
    Object out;
    out.type = kPods;
    out.meta.uid = Uid(1000 + name.size());
    out.meta.seq = ++seq;
    out.meta.ns = "default";
    out.meta.name = name;
    out.body = R"({"metadata":{"generation":1},"spec":{"containers":[{"name":"a","image":"i"}]},"status":{}})";
    out.shows = {{.kind = lockstep::Kind::kJob, .job = job.id}};
    return out;
  }
  std::string text(ShownTexts& texts, const Object& object, Seq as = 0) {
    std::string out;
    texts.append(out, request, object, as);
    std::string wanted;
    append_shown(wanted, request, object, as);
    EXPECT_EQ(out, wanted);
    return out;
  }
};

TEST_F(Texts, AreKeptWhenTheyAreAskedForAgainWhileNothingTheyRestOnChanges) {
  ShownTexts texts;
  Object object = pod("a");
  text(texts, object);
  EXPECT_EQ(texts.bytes(), 0u);
  for (int i = 0; i < 3; ++i) text(texts, object);
  EXPECT_EQ(texts.made(), 2u);
  job.state = JobState::kCompleted;
  put_job();
  for (int i = 0; i < 3; ++i) EXPECT_NE(text(texts, object).find("Succeeded"), std::string::npos);
  EXPECT_EQ(texts.made(), 4u);
  object.meta.seq = ++seq;
  for (int i = 0; i < 3; ++i) text(texts, object);
  EXPECT_EQ(texts.made(), 6u);
  EXPECT_NE(text(texts, object, seq + 5).find(std::to_string(seq + 5)), std::string::npos);
}

TEST_F(Texts, AreKeptApartByForm) {
  ShownTexts texts;
  const Object object = pod("a");
  const auto thrice = [&] {
    text(texts, object);
    text(texts, object);
    return text(texts, object);
  };
  const std::string whole = thrice();
  request.accepted.form = Accepted::Form::kMetadata;
  EXPECT_NE(thrice(), whole);
  request.accepted = {.protobuf = true};
  EXPECT_NE(thrice(), whole);
  EXPECT_EQ(texts.made(), 6u);
}

TEST_F(Texts, OfALongListKeepWhatTheyHave) {
  constexpr std::size_t kRoom = 16 << 10, kObjects = 60;
  ShownTexts texts(kRoom);
  std::vector<Object> objects;
  for (std::size_t i = 0; i < kObjects; ++i) objects.push_back(pod(std::string(i + 1, 'x')));
  for (int i = 0; i < 2; ++i)
    for (const Object& object : objects) text(texts, object);
  EXPECT_LE(texts.bytes(), kRoom);
  const std::size_t before = texts.made();
  for (const Object& object : objects) text(texts, object);
  EXPECT_LT(texts.made() - before, kObjects - 5);  // some were still there
}

TEST_F(Texts, OfABodyThatIsWrittenOtherwiseAreWhole) {
  ShownTexts texts;
  Object object = pod("a");
  for (const char* body : {R"({"metadata":{}})", R"({"metadata":{},"status":{"phase":"Failed"},"spec":{}})",
                           R"({"metadata":{"annotations2":"\"spec\":{"},"spec":{"nodeName":"n"},"status":{}})"}) {
    object.body = body;
    object.meta.seq = ++seq;
    for (int i = 0; i < 3; ++i) text(texts, object);
  }
}

}  // namespace
}  // namespace lockstep::kube
