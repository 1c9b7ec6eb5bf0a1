#include "frontends/slurm/server/explain_words.h"

#include <gtest/gtest.h>

namespace lockstep::slurm {
namespace {

TEST(ExplainWords, EverySuggestionIsSaidAndItsCommandNamed) {
  using What = remedy::Without::What;
  struct Row {
    Remedy remedy;
    std::string change, command;
  };
  const std::string update = "scontrol update JobId=12 ";
  const std::vector<Row> rows = {
      {remedy::Release{}, "released", "scontrol release 12"},
      {remedy::Without{What::kDependency}, "without its dependency", update + "Dependency="},
      {remedy::Without{What::kBegin}, "without its begin time", update + "StartTime=now"},
      {remedy::Without{What::kConstraint, "a&b"}, "without the constraint a&b", update + "Features="},
      {remedy::Without{What::kOnlyNodes, "n[1-2]"}, "on other nodes than n[1-2]", update + "ReqNodeList="},
      {remedy::Without{What::kExcludedNodes, "n3"}, "also on n3", update + "ExcNodeList="},
      {remedy::Without{What::kWholeNodes}, "without --exclusive", ""},
      {remedy::Without{What::kReservation, "maint"}, "without the reservation maint", update + "ReservationName="},
      {remedy::Without{What::kLicences, "matlab:2"}, "without the licences matlab:2", ""},
      {remedy::Without{What::kLevel, "leaf"}, "without --topology=leaf", ""},
      {remedy::Without{What::kSwitches}, "without --switches", ""},
      {remedy::Without{What::kSegment}, "without --segment", ""},
      {remedy::Without{What::kTopology}, "on nodes anywhere", ""},
      {remedy::FewerNodes{6, 8, 0}, "6 nodes instead of 8", update + "NumNodes=6"},
      {remedy::FewerNodes{1, 8, 2}, "1 node instead of 8", update + "NumNodes=1 NumTasks=2"},
      {remedy::FewerTasks{1, 4}, "1 task instead of 4", update + "NumTasks=1"},
      {remedy::ShorterLimit{hours(4), hours(30), {}}, "limit 04:00:00 instead of 1-06:00:00",
       update + "TimeLimit=04:00:00"},
      {remedy::ShorterLimit{hours(2), kForever, hours(3)},
       "limit 02:00:00 instead of UNLIMITED (it will likely run 03:00:00)", update + "TimeLimit=02:00:00"},
      {remedy::OtherPartition{"b"}, "partition b", update + "Partition=b"},
      {remedy::AnyDeviceType{"h100", remedy::DevicesPer::kTask, 2}, "any GPU instead of h100 (--gpus-per-task=2)", ""},
      {remedy::FewerDevices{remedy::DevicesPer::kNode, 3, 6}, "--gpus-per-node=3 instead of 6", ""},
      {remedy::WiderLevel{"spine", "leaf"}, "level spine instead of leaf (--topology=spine)", ""},
      {remedy::MoreSwitches{3, 2}, "--switches=3 instead of 2", ""},
      {remedy::MoveJobs{{JobId{4}, JobId{7}}, 84}, "moving jobs 4 and 7 (checkpointable, at most 84 GPU-minutes lost)",
       ""},
  };
  Explanation e;
  e.job = JobId{12};
  for (const Row& row : rows) e.suggestions.push_back({row.remedy, {}, "", ""});
  put_in_words(e);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(e.suggestions[i].change, rows[i].change);
    EXPECT_EQ(e.suggestions[i].command, rows[i].command);
  }
}

TEST(ExplainWords, TheReasonNamesTheOptionOrCommand) {
  const auto said = [](std::string because, ReasonTopic topic) {
    Explanation e;
    e.job = JobId{12};
    e.because = std::move(because);
    e.topic = topic;
    put_in_words(e);
    return e.because;
  };
  EXPECT_EQ(said("It has its nodes.", ReasonTopic::kNone), "It has its nodes.");
  EXPECT_EQ(said("It may not begin before the time its owner named.", ReasonTopic::kBeginTime),
            "It may not begin before the time its owner named (--begin).");
  EXPECT_EQ(said("Give it a limit of 04:00:00 or less.", ReasonTopic::kTimeLimit),
            "Give it a limit of 04:00:00 or less (--time, or scontrol update TimeLimit=).");
  EXPECT_EQ(said("It ended well.", ReasonTopic::kAccounting), "It ended well; sacct -j 12 has its record.");
  Explanation shut;
  shut.because = "partition night: the partition is down.";
  shut.expected.reason = "PartitionInactive";
  shut.funnels.resize(1);
  shut.funnels[0].partition = "night";
  put_in_words(shut);
  EXPECT_EQ(shut.because,
            "partition night: the partition is down (an administrator opens it: scontrol update PartitionName=night "
            "State=UP).");
}

}  // namespace
}  // namespace lockstep::slurm
