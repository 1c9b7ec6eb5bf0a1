#include "frontends/slurm/server/states.h"

#include <gtest/gtest.h>

#include "model/job.h"

namespace lockstep::slurm {
namespace {

TEST(States, EveryJobStateHasBothForms) {
  const std::vector<std::tuple<JobState, std::string, std::string>> expected = {
      {JobState::kPending, "PENDING", "PD"},       {JobState::kStarting, "CONFIGURING", "CF"},
      {JobState::kRunning, "RUNNING", "R"},        {JobState::kSuspended, "SUSPENDED", "S"},
      {JobState::kCompleting, "COMPLETING", "CG"}, {JobState::kCompleted, "COMPLETED", "CD"},
      {JobState::kFailed, "FAILED", "F"},          {JobState::kCancelled, "CANCELLED", "CA"},
      {JobState::kTimeout, "TIMEOUT", "TO"},       {JobState::kNodeFail, "NODE_FAIL", "NF"},
      {JobState::kPreempted, "PREEMPTED", "PR"},   {JobState::kOutOfMemory, "OUT_OF_MEMORY", "OOM"},
      {JobState::kDeadline, "DEADLINE", "DL"},     {JobState::kBootFail, "BOOT_FAIL", "BF"}};
  for (const auto& [state, full, compact] : expected) {
    EXPECT_EQ(slurm_state(state), full);
    EXPECT_EQ(slurm_state_compact(state), compact);
    EXPECT_TRUE(parse_slurm_states(full).value().has(state));
    EXPECT_TRUE(parse_slurm_states(compact).value().has(state));
    EXPECT_TRUE(parse_slurm_states("all").value().has(state));
  }
}

TEST(States, Sets) {
  const JobStates set = parse_slurm_states("pd,running,RH").value();
  EXPECT_TRUE(set.has(JobState::kPending));
  EXPECT_TRUE(set.has(JobState::kRunning));
  EXPECT_FALSE(set.has(JobState::kFailed));
  EXPECT_FALSE(JobStates::unfinished().has(JobState::kCompleted));
  EXPECT_TRUE(JobStates::unfinished().has(JobState::kCompleting));
  EXPECT_EQ(parse_slurm_states("R,SLEEPING").error().message, "Invalid job state specified: SLEEPING");
  const JobStates sparse = parse_slurm_states("R,,PD,").value();
  EXPECT_TRUE(sparse.has(JobState::kPending) && sparse.has(JobState::kRunning) && !sparse.has(JobState::kFailed));
}

TEST(Reasons, CoreHoldsComeFirst) {
  const std::vector<std::pair<Hold, std::string>> expected = {{Hold::kUser, "JobHeldUser"},
                                                              {Hold::kAdmin, "JobHeldAdmin"},
                                                              {Hold::kRequeueLimit, "JobHoldMaxRequeue"},
                                                              {Hold::kDependency, "Dependency"},
                                                              {Hold::kDependencyNever, "DependencyNeverSatisfied"},
                                                              {Hold::kBeginTime, "BeginTime"},
                                                              {Hold::kArrayThrottle, "JobArrayTaskLimit"},
                                                              {Hold::kLaunchFailed, "launch_failed_requeued_held"}};
  PlanNote note;
  note.wait = Wait::kResources;
  for (const auto& [hold, reason] : expected) {
    Job job;
    job.hold = hold;
    EXPECT_EQ(slurm_reason(job, &note), reason);
  }
}

TEST(JobStates, APauseIsToldWhenItIsTrue) {
  Job job;
  job.state = JobState::kSuspended;
  job.suspended_at = Instant{1};
  job.members = {MemberState::kPaused, MemberState::kRunning};
  EXPECT_EQ(slurm_state(job), "SIGNALING");
  EXPECT_EQ(slurm_state_compact(job), "SI");
  for (const char* text : {"SI", "signaling", "S", "R,SI"})
    EXPECT_TRUE(parse_slurm_states(text).value().has(job)) << text;
  job.members[1] = MemberState::kPaused;
  EXPECT_EQ(slurm_state(job), "SUSPENDED");
  EXPECT_FALSE(parse_slurm_states("SI,R").value().has(job));
  EXPECT_TRUE(parse_slurm_states("S").value().has(job));
  EXPECT_EQ(slurm_reason(job, nullptr), "None");
  job.eviction = std::make_shared<const Eviction>(Eviction{{}, PreemptMode::kSuspend, {}, {}});
  EXPECT_EQ(slurm_reason(job, nullptr), "Resources");  // it is to go on
}

TEST(Reasons, PlannersNotes) {
  const std::vector<std::pair<Wait, std::string>> expected = {
      {Wait::kNone, "None"},
      {Wait::kPriority, "Priority"},
      {Wait::kResources, "Resources"},
      {Wait::kNodesUnavailable, "ReqNodeNotAvail, UnavailableNodes:n3"},
      {Wait::kPartitionDown, "PartitionDown"},
      {Wait::kPartitionTimeLimit, "PartitionTimeLimit"},
      {Wait::kPartitionNodeLimit, "PartitionNodeLimit"},
      {Wait::kBadConstraints, "BadConstraints"},
      {Wait::kReservation, "Reservation"},
      {Wait::kLicenses, "Licenses"}};
  for (const auto& [wait, reason] : expected) {
    PlanNote note;
    note.wait = wait;
    note.detail = "UnavailableNodes:n3";
    EXPECT_EQ(slurm_reason(Job{}, &note), reason);
  }
  EXPECT_EQ(slurm_reason(Job{}, nullptr), "None");
  PlanNote closed;
  closed.wait = Wait::kPartitionDown;
  closed.detail = "closed";
  EXPECT_EQ(slurm_reason(Job{}, &closed), "PartitionInactive");
  PlanNote limit;
  limit.wait = Wait::kLimit;
  limit.detail = "QOSMaxGRESPerUser: QOS gold allows 8 gres/gpu, 8 in use, 1 asked for";
  EXPECT_EQ(slurm_reason(Job{}, &limit), "QOSMaxGRESPerUser");
}

TEST(Reasons, EndedJobs) {
  Job job;
  job.state = JobState::kNodeFail;
  job.end_reason = "NodeDown n3";
  EXPECT_EQ(slurm_reason(job, nullptr), "NodeDown");
  job.state = JobState::kRunning;
  EXPECT_EQ(slurm_reason(job, nullptr), "None");
}

struct NodeCase {
  NodeLink link = NodeLink::kUp;
  bool drain = false;
  std::uint32_t cores = 0, running = 0, completing = 0;
  bool planned = false;
  const char* full;
  const char* compact;
  const char* flags;
};

TEST(NodeStates, WordsAndMarks) {
  const NodeCase cases[] = {
      {.full = "idle", .compact = "idle", .flags = "IDLE"},
      {.planned = true, .full = "planned", .compact = "plnd", .flags = "IDLE+PLANNED"},
      {.cores = 2, .running = 1, .full = "mixed", .compact = "mix", .flags = "MIXED"},
      {.cores = 2, .running = 1, .planned = true, .full = "mixed-", .compact = "mix-", .flags = "MIXED"},
      {.cores = 4, .running = 1, .full = "allocated", .compact = "alloc", .flags = "ALLOCATED"},
      {.cores = 4,
       .running = 1,
       .completing = 1,
       .full = "allocated+",
       .compact = "alloc+",
       .flags = "ALLOCATED+COMPLETING"},
      {.cores = 2, .completing = 1, .full = "completing", .compact = "comp", .flags = "MIXED+COMPLETING"},
      {.drain = true, .full = "drained", .compact = "drain", .flags = "IDLE+DRAIN"},
      {.drain = true, .cores = 1, .running = 1, .full = "draining", .compact = "drng", .flags = "MIXED+DRAIN"},
      {.link = NodeLink::kLost, .full = "down*", .compact = "down*", .flags = "DOWN+NOT_RESPONDING"},
      {.link = NodeLink::kLost,
       .drain = true,
       .full = "drained*",
       .compact = "drain*",
       .flags = "DOWN+DRAIN+NOT_RESPONDING"},
      {.link = NodeLink::kUnknown, .full = "idle*", .compact = "idle*", .flags = "IDLE+NOT_RESPONDING"},
  };
  for (const NodeCase& c : cases) {
    Node node;
    node.cores = 4;
    node.link = c.link;
    node.drain = c.drain;
    NodeHolding holding;
    holding.cores = CoreSet::first_n(c.cores);
    holding.running = c.running;
    holding.completing = c.completing;
    holding.planned = c.planned;
    EXPECT_EQ(slurm_node_state(node, holding), c.full);
    EXPECT_EQ(slurm_node_state_compact(node, holding), c.compact);
    EXPECT_EQ(slurm_node_state_flags(node, holding), c.flags);
  }
}

TEST(NodeStates, AnExclusiveHolderTakesTheNode) {
  Node node;
  node.cores = 8;
  node.link = NodeLink::kUp;
  NodeHolding holding;
  holding.cores = CoreSet::first_n(1);
  holding.running = 1;
  holding.whole = true;
  EXPECT_EQ(slurm_node_state(node, holding), "allocated");
}

}  // namespace
}  // namespace lockstep::slurm
