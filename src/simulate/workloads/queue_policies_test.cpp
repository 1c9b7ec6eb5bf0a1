// The default policy on random logs: it knows nothing that it could not know, and it lets nobody starve.
#include "simulate/workloads/queue_policies.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "sim/node_tree.h"
#include "simulate/workloads/node_topology.h"

namespace lockstep::sim {
namespace {

std::vector<TraceJob> random_jobs(std::uint64_t seed, int count) {
  Rng rng(seed);
  std::vector<TraceJob> jobs;
  std::int64_t at_s = 1000;
  for (int i = 0; i < count; ++i) {
    at_s += rng.between(0, 400);
    const std::int64_t run_s = rng.between(1, std::int64_t{1} << rng.between(1, 13));
    jobs.push_back({.id = i,
                    .size = rng.chance(0.1) ? rng.between(1, 32) : rng.between(1, 6),
                    .limit_s = run_s * rng.between(1, 5),
                    .run_s = run_s,
                    .submit_s = at_s,
                    .user = std::to_string(rng.below(4))});
  }
  return jobs;
}

// Whatever another run time of one job changes, it changes nothing before that job ends.
class Ours : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Policies, Ours, testing::Values("default", "turns"));

TEST_P(Ours, KnowsNoRunTimeBeforeTheEnd) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::vector<TraceJob> jobs = random_jobs(seed, 150);
    const std::int32_t nodes = seed % 2 ? 1 : 4, devices = seed % 2 ? 32 : 8;
    const QueueRun before = run_policy(jobs, nodes, devices, {.policy = GetParam()}).value();
    Rng rng(seed);
    const auto changed = static_cast<std::size_t>(rng.below(jobs.size()));
    const std::int64_t old_end_s = before.start_s[changed] + jobs[changed].run_s;
    jobs[changed].run_s = rng.between(1, jobs[changed].limit_s);
    const QueueRun after = run_policy(jobs, nodes, devices, {.policy = GetParam()}).value();
    const std::int64_t until_s = std::min(old_end_s, before.start_s[changed] + jobs[changed].run_s);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (std::min(before.start_s[i], after.start_s[i]) < until_s) {
        ASSERT_EQ(before.start_s[i], after.start_s[i]) << "seed " << seed << ", job " << i;
      }
    }
  }
}

// A stream of small short jobs that alone would fill the pool does not keep a job of the whole pool out, not even for a
// day: its turn comes about when it would under first come, first served.
TEST_P(Ours, AJobOfTheWholePoolGetsItsTurn) {
  std::vector<TraceJob> jobs;
  for (std::int64_t i = 0; i < 6000; ++i)
    jobs.push_back({.id = i, .size = 1, .limit_s = 600, .run_s = 500, .submit_s = i * 100, .user = "a"});
  jobs.push_back({.id = 6000, .size = 4, .limit_s = 90'000, .run_s = 50'000, .submit_s = 600'000, .user = "b"});
  jobs.insert(jobs.begin() + 100,
              {.id = 6001, .size = 4, .limit_s = 9000, .run_s = 5000, .submit_s = 9950, .user = "b"});
  const QueueRun run = run_policy(jobs, 1, 4, {.policy = GetParam()}).value();
  EXPECT_LT(run.start_s[100] - jobs[100].submit_s, 40'000);
}

TEST(FairTurns, OnlyAnOracleKnowsMoreThanTheLimitsOfUnknownUsers) {
  // Two jobs of equal limits are queued behind a full pool; nothing has ended yet, so only an oracle can tell them
  // apart.
  const std::vector<TraceJob> jobs{{.id = 0, .size = 1, .limit_s = 1000, .run_s = 1000, .submit_s = 0},
                                   {.id = 1, .size = 1, .limit_s = 90'000, .run_s = 80'000, .submit_s = 1},
                                   {.id = 2, .size = 1, .limit_s = 90'000, .run_s = 10, .submit_s = 2}};
  EXPECT_EQ(run_policy(jobs, 1, 1, {.policy = "turns"})->start_s[1], 1000);
  EXPECT_EQ(run_policy(jobs, 1, 1, {.policy = "turns", .oracle = true})->start_s[2], 1000);
}

// Twelve nodes, three leaves: short and long gangs come and go, so that free nodes lie scattered.
std::int32_t gangs_at_best(const QueueRun& run, const NodeTree& tree, std::span<const TraceJob> jobs) {
  std::int32_t at_best = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    at_best += tree.level_of(run.places[i]) <= tree.best_level(static_cast<std::int32_t>((jobs[i].size + 7) / 8));
  return at_best;
}

TEST(NodeTopology, ThePlannerKeepsGangsTogether) {
  const Topology topology = parse_node_topology("t",
                                                "SwitchName=a Nodes=n[0,3,6,9]\nSwitchName=b Nodes=n[1,4,7,10]\n"
                                                "SwitchName=c Nodes=n[2,5,8,11]\nSwitchName=s Switches=a,b,c\n",
                                                12)
                                .value();
  const NodeTree tree = NodeTree::of(topology, node_names(12, &topology));
  Rng rng(5);
  std::vector<TraceJob> jobs;
  for (int i = 0; i < 200; ++i) {
    const std::int64_t run_s = rng.between(100, 3000);
    jobs.push_back({.id = i, .size = 8 * rng.between(1, 4), .limit_s = run_s, .run_s = run_s, .submit_s = i * 450});
  }
  const QueueRun flat = run_policy(jobs, 12, 8, {.policy = "default"}).value();
  const QueueRun aware = run_policy(jobs, 12, 8, {.policy = "default", .topology = topology}).value();
  const std::int32_t with_tree = gangs_at_best(aware, tree, jobs), without = gangs_at_best(flat, tree, jobs);
  EXPECT_GT(with_tree, 150);
  EXPECT_LT(without, with_tree - 30) << with_tree;
}

TEST(NodeTopology, FilesAreReadAsTheProductReadsThem) {
  const auto complaint = [](std::string_view text) {
    const auto read = parse_node_topology("t.conf", text, 2);
    return read.ok() ? std::string() : read.error().message;
  };
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[0-1]\n"), "");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[1-2]\n"), "");
  EXPECT_EQ(complaint("BlockName=a Nodes=n[1-2]\nBlockSizes=2\n"), "");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n[1-3]\n"), "t.conf:1: n3 is no node of this cluster yet");
  EXPECT_EQ(complaint("SwitchName=a Nodes=n1\n"), "t.conf: n2 hangs on no switch");
  EXPECT_EQ(complaint("SwitchName=a Switches=a\n").substr(0, 9), "t.conf:1:");
  EXPECT_EQ(read_node_topology("/nowhere/at/all", 2).error().code, Errc::kNotFound);
}

TEST(QueuePolicies, UnknownNamesAreRefused) {
  const std::vector<TraceJob> jobs = random_jobs(1, 3);
  EXPECT_EQ(run_policy(jobs, 1, 32, {.policy = "magic"}).error().field, "--policy");
  EXPECT_EQ(strict_policy("easy", jobs, 32).error().field, "--policy");
  OrderPolicy order;
  order.steep = -1;
  EXPECT_EQ(run_policy(jobs, 1, 32, {.policy = "turns", .order = order}).error().field, "steep");
}

}  // namespace
}  // namespace lockstep::sim
