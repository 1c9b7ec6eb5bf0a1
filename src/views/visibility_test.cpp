#include "views/visibility.h"

#include <gtest/gtest.h>

#include "model/job.h"
#include "model/records.h"
#include "model/step.h"
#include "views/test_tables.h"

namespace lockstep {
namespace {

const Viewer kOwner{UserId(1), false}, kOther{UserId(2), false}, kAdmin{UserId{}, true}, kNobody{};

TEST(Visibility, OthersSeeAJobAndNotWhatItRuns) {
  TestTables t;
  t.draft(12, 1);
  t.spec().name = "train";
  t.spec().environment = "blob";
  t.spec().script = "blob";
  t.spec().std_in = "/home/alice/secret";
  t.spec().groups[0].argv = {"--token", "s3cret"};
  t.save();
  const Ref<Job> job = t.tables.jobs.at(JobId(12));
  EXPECT_EQ(shown_to(kOwner, job).ref(), job);
  EXPECT_EQ(shown_to(kAdmin, job).ref(), job);
  for (const Viewer& viewer : {kOther, kNobody}) {
    const Visible<Job> seen = shown_to(viewer, job);
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->spec->name, "train");
    EXPECT_EQ(seen->meta.seq, job->meta.seq);
    EXPECT_TRUE(seen->spec->environment.empty());
    EXPECT_TRUE(seen->spec->script.empty());
    EXPECT_TRUE(seen->spec->std_in.empty());
    EXPECT_TRUE(std::as_const(seen->spec->groups)[0].argv.empty());
  }
}

TEST(Visibility, StepsKeepTheirCommandLineToTheirOwner) {
  Step step;
  step.job = JobId(12);
  step.user = UserId(1);
  StepSpec spec;
  spec.name = "mpi";
  spec.argv = {"mpi", "--key=1"};
  spec.multi_prog = {{"a"}, {"b"}};
  step.spec = std::make_shared<const StepSpec>(spec);
  const Ref<Step> ref = std::make_shared<const Step>(step);
  EXPECT_EQ(shown_to(kOwner, ref)->spec->argv.size(), 2u);
  EXPECT_TRUE(shown_to(kOther, ref)->spec->argv.empty());
  EXPECT_TRUE(shown_to(kOther, ref)->spec->multi_prog.empty());
  EXPECT_EQ(shown_to(kOther, ref)->spec->name, "mpi");
}

// Everybody's pods are root's: root of a node is their owner where they are.
TEST(Visibility, RootOfANodeOwnsWhatIsThere) {
  Job job;
  job.id = JobId(12);
  auto spec = std::make_shared<JobSpec>();
  spec->user = UserId(1);
  spec->script = "blob";
  job.spec = spec;
  auto allocation = std::make_shared<Allocation>();
  allocation->grants.emplace_back().node = NodeId(3);
  job.allocation = allocation;
  job.members = {MemberState::kRunning};
  Step step;
  step.user = UserId(1);
  step.places = {StepPlace{.node = NodeId(3)}};
  auto what = std::make_shared<StepSpec>();
  what->argv = {"secret"};
  step.spec = what;
  Task task;
  task.user = UserId(1);
  task.address = "10.0.0.1";
  const Viewer there{UserId(1), false, NodeId(3)}, elsewhere{UserId(1), false, NodeId(4)};
  const Ref<Job> job_ref = std::make_shared<const Job>(job);
  const Ref<Step> step_ref = std::make_shared<const Step>(step);
  const Ref<Task> task_ref = std::make_shared<const Task>(task);
  EXPECT_TRUE(there.owns(job));
  EXPECT_FALSE(elsewhere.owns(job));
  EXPECT_FALSE(shown_to(there, job_ref)->spec->script.empty());
  EXPECT_TRUE(shown_to(elsewhere, job_ref)->spec->script.empty());
  EXPECT_FALSE(shown_to(there, step_ref)->spec->argv.empty());
  EXPECT_TRUE(shown_to(elsewhere, step_ref)->spec->argv.empty());
  EXPECT_TRUE(shown_to(there, task_ref)->address.empty());  // its record does not tell where it is; its job's does
  EXPECT_EQ(sees_job_as(there, job), Visibility::kOwner);
  EXPECT_EQ(sees_job_as(elsewhere, job), Visibility::kEveryone);
  EXPECT_FALSE(there.owns(UserId(1)));  // no more than what is there

  job.members = {MemberState::kStopped};
  EXPECT_FALSE(there.owns(job));
}

TEST(Visibility, TokensAreForAdministratorsAndTheirHashesForNobody) {
  JoinToken token;
  token.secret_sha256 = "cafe";
  const Ref<JoinToken> ref = std::make_shared<const JoinToken>(token);
  EXPECT_FALSE(shown_to(kOther, ref));
  ASSERT_TRUE(shown_to(kAdmin, ref));
  EXPECT_TRUE(shown_to(kAdmin, ref)->secret_sha256.empty());
  EXPECT_FALSE(shown_to(kOther, Ref<Object>(std::make_shared<const Object>())));
}

}  // namespace
}  // namespace lockstep
