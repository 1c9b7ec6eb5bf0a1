// Who sees what of a record: every private field is really taken away, and nothing else is.
#include "model/kinds.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/job_fields.h"
#include "model/record_fields.h"

namespace lockstep {
namespace {

Ref<StepSpec> secret_step() {
  StepSpec spec;
  spec.name = "train";
  spec.argv = {"curl", "-H", "token: secret"};
  spec.environment = "e";
  spec.std_in = spec.std_out = spec.std_err = "/home/alice/secret";
  spec.multi_prog = {{"secret"}};
  spec.options = {{"export", "KEY=secret"}};
  spec.container.image = "secret";
  return std::make_shared<const StepSpec>(spec);
}

Job secret_job() {
  JobSpec spec;
  spec.name = "train";
  spec.user = UserId{7};
  spec.comment = "public";
  spec.script = spec.environment = "e";
  spec.std_in = spec.std_out = spec.std_err = "/home/alice/secret";
  spec.options = {{"export", "KEY=secret"}};
  GroupSpec group;
  group.argv = {"secret"};
  group.env = {{"KEY", "secret"}};
  group.probes.emplace_back();
  group.container.image = "secret";
  spec.groups = {group, group};
  Job job;
  job.spec = std::make_shared<const JobSpec>(spec);
  job.first_step = secret_step();
  return job;
}

bool lists(Kind kind, const std::string& path) {
  const auto fields = private_fields(kind);
  return std::any_of(fields.begin(), fields.end(), [&](const PrivateField& f) { return f.path == path; });
}

TEST(Kinds, RowsAreInOrder) {
  EXPECT_EQ(visibility_of(Kind::kToken), Visibility::kAdministrator);
  EXPECT_EQ(visibility_of(Kind::kJob), Visibility::kEveryone);
  EXPECT_EQ(row_of(Kind::kPacking).word, "packing");
  EXPECT_EQ(kKindOf<JoinToken>, Kind::kToken);
}

TEST(Kinds, OthersSeeAJobWithoutItsWords) {
  const Record record = std::make_shared<const Job>(secret_job());
  EXPECT_EQ(owner_of(record), UserId{7});
  EXPECT_EQ(as_seen_by(record, Visibility::kOwner).record(), record);
  const Job shown = *as_seen_by(record, Visibility::kEveryone).as<Job>();
  EXPECT_EQ(shown.spec->name, "train");
  EXPECT_EQ(shown.spec->comment, "public");
  EXPECT_TRUE(shown.spec->script.empty() && shown.spec->environment.empty() && shown.spec->options.empty());
  EXPECT_TRUE(shown.spec->std_in.empty() && shown.spec->std_out.empty() && shown.spec->std_err.empty());
  ASSERT_EQ(shown.spec->groups.size(), 2u);
  for (const GroupSpec& group : shown.spec->groups.get()) EXPECT_EQ(group, GroupSpec{});
  EXPECT_TRUE(shown.first_step->argv.empty());
  EXPECT_TRUE(lists(Kind::kJob, "spec.groups[].argv") && lists(Kind::kJob, "first_step.argv"));
  // What is shared with the record stays as it was.
  EXPECT_EQ(std::get<Ref<Job>>(record)->spec->groups[1].argv.size(), 1u);
}

TEST(Kinds, OthersSeeAStepWithoutItsWords) {
  Step step;
  step.user = UserId{7};
  step.spec = secret_step();
  const Record record = std::make_shared<const Step>(step);
  EXPECT_EQ(owner_of(record), UserId{7});
  const StepSpec shown = *as_seen_by(record, Visibility::kEveryone).as<Step>()->spec;
  EXPECT_EQ(shown.name, "train");
  EXPECT_TRUE(shown.argv.empty() && shown.environment.empty() && shown.multi_prog.empty() && shown.options.empty());
  EXPECT_TRUE(shown.std_in.empty() && shown.std_out.empty() && shown.std_err.empty() && shown.container.image.empty());
  EXPECT_TRUE(lists(Kind::kStep, "spec.multi_prog"));
}

TEST(Kinds, OthersSeeATaskWithoutItsContainersAndTheWordOfAnEnd) {
  Task task;
  task.user = UserId{7};
  task.address = "10.0.0.1";
  task.reason = "image secret";
  task.containers = {ContainerStatus{.name = "main", .message = "secret"}};
  const Record record = std::make_shared<const Task>(task);
  EXPECT_EQ(owner_of(record), UserId{7});
  EXPECT_EQ(as_seen_by(record, Visibility::kOwner).record(), record);
  const Task shown = *as_seen_by(record, Visibility::kEveryone).as<Task>();
  EXPECT_TRUE(shown.address.empty() && shown.reason.empty() && shown.containers.empty());

  Job job = secret_job();
  job.end_reason = "StageInFailed n1: /home/alice/secret";
  const Record ended = std::make_shared<const Job>(job);
  EXPECT_EQ(as_seen_by(ended, Visibility::kEveryone).as<Job>()->end_reason, "StageInFailed");
  EXPECT_EQ(as_seen_by(ended, Visibility::kOwner).as<Job>()->end_reason, job.end_reason);
}

TEST(Kinds, NobodySeesTheHashOfAToken) {
  JoinToken token;
  token.meta.name = "t1";
  token.secret_sha256 = "hash";
  const Record record = std::make_shared<const JoinToken>(token);
  const JoinToken shown = *as_seen_by(record, Visibility::kAdministrator).as<JoinToken>();
  EXPECT_EQ(shown.secret_sha256, "");
  EXPECT_EQ(shown.meta.name, "t1");
}

TEST(Kinds, AFieldSaysWhoSeesIt) {
  static_assert(told_to(&JobSpec::script) == Visibility::kOwner);
  static_assert(told_to(&Program::argv) == Visibility::kOwner);
  static_assert(told_to(&JobSpec::comment) == Visibility::kEveryone);
  static_assert(told_to(&Node::certificate) == Visibility::kAdministrator);
  static_assert(told_to(&JoinToken::secret_sha256) == Visibility::kNobody);
  EXPECT_TRUE(lists(Kind::kUser, "home") && lists(Kind::kTask, "containers") && lists(Kind::kNode, "certificate"));
  EXPECT_TRUE(lists(Kind::kJob, "spec.groups[].sandbox") && lists(Kind::kHealthCheck, "script"));
  EXPECT_FALSE(lists(Kind::kJob, "spec.name"));
}

}  // namespace
}  // namespace lockstep
