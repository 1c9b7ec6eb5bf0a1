#include "frontends/slurm/client/scontrol_update.h"

#include <gtest/gtest.h>

#include "frontends/slurm/client/scontrol_verbs.h"

namespace lockstep::slurm {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

UpdateJob job(Pairs pairs) {
  pairs.insert(pairs.begin(), {"jobid", "12"});
  return job_change(pairs, {WallTime{}, hours(1)}).value();
}
std::string job_error(Pairs pairs) {
  pairs.insert(pairs.begin(), {"jobid", "12"});
  return job_change(pairs, {WallTime{}, hours(1)}).error().message;
}

TEST(ScontrolUpdate, JobKeys) {
  EXPECT_EQ(job({{"timelimit", "30"}}).time_limit, minutes(30));
  EXPECT_EQ(job({{"timelimit", "+30"}}).time_limit, minutes(90));
  EXPECT_EQ(job({{"timelimit", "-30"}}).time_limit, minutes(30));
  EXPECT_EQ(job({{"partition", "a,b"}}).partitions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(job({{"excnodelist", "n[1-2]"}}).exclude_nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(job({{"nice", ""}}).nice, 100);
  EXPECT_EQ(job({{"numnodes", "2-4"}}).nodes, (CountRange{2, 4}));
  EXPECT_EQ(job({{"dependency", ""}}).dependencies->size(), 0u);
  EXPECT_EQ(job({{"jobname", "x"}, {"requeue", "0"}}).requeue, false);
}

TEST(ScontrolUpdate, BadValues) {
  EXPECT_EQ(job_error({{"timelimit", "soon"}}), "Invalid value for timelimit: soon");
  EXPECT_EQ(job_error({{"timelimit", "-60"}}), "Invalid value for timelimit: -60");
  EXPECT_EQ(job_error({{"priority", "-1"}}), "Invalid value for priority: -1");
  EXPECT_EQ(job_error({{"numtasks", "0"}}), "Invalid value for numtasks: 0");
  EXPECT_EQ(job_error({{"burstbuffer", "x"}}),
            "Update of this parameter is not supported: burstbuffer\nRequest aborted");
}

TEST(ScontrolUpdate, Nodes) {
  const Pairs drain = {{"nodename", "n1"}, {"state", "DRAIN"}, {"reason", "bad fan"}};
  EXPECT_EQ(node_change(drain)->update.drain, true);
  EXPECT_EQ(node_change(drain)->update.reason, "bad fan");
  EXPECT_EQ(node_change({{"nodename", "n1"}, {"state", "resume"}})->update.drain, false);
  EXPECT_EQ(node_change({{"nodename", "n1"}, {"state", "drain"}}).error().message,
            "You must specify a reason when DRAINING a node. Request denied");
  const auto down = node_change({{"nodename", "n1"}, {"state", "down"}, {"reason", "x"}});
  EXPECT_TRUE(down->update.drain == true && down->ends_jobs);
  EXPECT_EQ(node_change({{"nodename", "n1"}, {"state", "down"}}).error().message,
            "You must specify a reason when DOWNING a node. Request denied");
  const auto fails = node_change({{"nodename", "n1"}, {"state", "fail"}, {"reason", "x"}});
  EXPECT_TRUE(fails->update.drain == true && !fails->ends_jobs);
  EXPECT_FALSE(node_change({{"nodename", "n1"}, {"state", "future"}, {"reason", "x"}}).ok());
}

TEST(ScontrolWords, Abbreviations) {
  EXPECT_TRUE(abbreviates("hostname", "hostnames", 5));
  EXPECT_TRUE(abbreviates("HOSTNAMES", "hostnames", 5));
  EXPECT_FALSE(abbreviates("host", "hostnames", 5));
  EXPECT_FALSE(abbreviates("hostnamesx", "hostnames", 5));
  EXPECT_EQ(key_value("TimeLimit=1=2")->second, "1=2");
  EXPECT_FALSE(key_value("=x").has_value());
  EXPECT_FALSE(key_value("novalue").has_value());
}

}  // namespace
}  // namespace lockstep::slurm
