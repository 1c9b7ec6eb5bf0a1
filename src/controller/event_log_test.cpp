#include "controller/event_log.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "controller/test_log.h"
#include "model/spec.h"

namespace lockstep {
namespace {

TEST(EventLog, TellsWhatBefellJobsAndNodesAndWhoAskedForWhat) {
  TestLog log;
  Instant now = kStart;
  auto engine = std::move(*Engine::open(log, log, {}, now));
  std::vector<Event> events;
  engine->add_reader([&](const std::shared_ptr<const Engine::Batch>& batch) {
    events.insert(events.end(), batch->events.begin(), batch->events.end());
  });
  const auto run = [&](CommandBody body) {
    Answer answer;
    engine->submit(own(std::move(body)), [&](const Result<Answer>& a) { answer = a.value(); });
    now = now + millis(1);
    engine->run_batch(now);
    return answer;
  };
  User user;
  user.meta.name = "ann";
  user.uid = 1000;
  const UserId ann = run(PutUser{user}).user;
  Node facts;
  facts.meta.name = "n1";
  facts.boot_id = "b1";
  facts.cores = 4;
  run(NodeHello{facts});
  auto spec = std::make_shared<JobSpec>();
  spec->user = ann;
  spec->hold = true;
  spec->groups.resize(1);
  spec->groups[0].launch = Launch::kScript;
  spec->script = "a-blob";
  const JobId job = run(SubmitJob{spec, std::nullopt, nullptr, {}}).job;
  run(CancelJob{{job, {}}});

  Engine::Batch batch;
  batch.events = events;
  const std::string who = format("u{} ", ann.value);
  batch.acts = {{who + "update node n1 drain reason \"bad dimm\"", false},
                {who + format("cancel {} 0", job.value), true},
                {who + "submit train abc 0", false},
                {"u77 hold 5", false}};
  const auto lines = lines_of(batch, engine->state().tables());
  const auto has = [&](const std::string& line) { return std::find(lines.begin(), lines.end(), line) != lines.end(); };
  EXPECT_TRUE(has("Asked by=ann: update node n1 drain reason \"bad dimm\""));
  EXPECT_TRUE(has(format("Refused by=ann: cancel {} 0", job.value)));
  EXPECT_TRUE(has("Asked by=u77: hold 5"));
  EXPECT_TRUE(has("NodeRegistered node=n1"));
  EXPECT_TRUE(has(format("Submitted job={} user=ann", job.value)));
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.starts_with(format("Ended job={} user=ann state=cancelled exit=0:0", job.value));
  })) << lines.back();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const auto& line) { return line.find("train") != line.npos; }),
            0);
}

}  // namespace
}  // namespace lockstep
