// Where gangs go in a tree: the tightest domain, few parts, what is required, what is waited for, ranks, and that a
// planner that lived through all of it equals one that did not.
#include "sched/domains.h"

#include "model/job.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

// s1: n1-n4, s2: n5-n6 below a; s3: n7-n9 below b. Every node has 4 cores and 4 devices.
struct Tree : MiniCore, Driver {
  Tree() {
    Topology topology;
    topology.levels = {"spine", "leaf"};
    put(topology);
    add_partition("main", {"ALL"});
    for (std::uint32_t n = 1; n <= 9; ++n) {
      paths[n] = n <= 4   ? std::vector<std::string>{"a", "s1"}
                 : n <= 6 ? std::vector<std::string>{"a", "s2"}
                          : std::vector<std::string>{"b", "s3"};
      add_node(n, 4, 4, paths[n]);
    }
  }
  // Whole nodes.
  static JobSpec gang(std::uint32_t nodes, Duration limit = hours(1)) { return ask(nodes, 4, limit, 4); }
  void busy(std::initializer_list<std::uint32_t> nodes, Duration limit = hours(1)) {
    for (const std::uint32_t n : nodes) {
      JobSpec spec = gang(1, limit);
      spec.groups[0].only_nodes = {format("n{}", n)};
      on_node[n] = add_job(spec, 1000);
    }
    run(*this, now);
  }
  // The nodes it got, in rank order; empty: it waits.
  std::string got(JobId id) {
    const Job& job = *tables.job(id);
    std::string out;
    if (job.allocation)
      for (const Grant& grant : job.allocation->grants)
        out += format("{}n{}", out.empty() ? "" : " ", grant.node.value);
    return out;
  }
  std::string place(const JobSpec& spec) {
    const JobId id = add_job(spec);
    run(*this, now);
    return got(id);
  }
  std::map<std::uint32_t, std::vector<std::string>> paths;
  std::map<std::uint32_t, JobId> on_node;
  Instant now = kNow;
};

TEST(Domains, a_gang_gets_the_tightest_leaf_that_holds_it) {
  Tree t;
  EXPECT_EQ(t.place(Tree::gang(2)), "n5 n6");
  EXPECT_EQ(t.place(Tree::gang(3)), "n7 n8 n9");
  EXPECT_EQ(t.place(Tree::gang(2)), "n1 n2");
}

TEST(Domains, one_that_no_leaf_holds_gets_one_spine_and_few_parts_of_it) {
  Tree t;
  EXPECT_EQ(t.place(Tree::gang(5)), "n1 n2 n3 n4 n5");
  Tree u;
  u.busy({1, 2, 3});
  EXPECT_EQ(u.place(Tree::gang(5)), "n5 n6 n7 n8 n9");  // no spine has 5: the largest whole, then the tightest
}

TEST(Domains, single_jobs_use_up_what_is_broken) {
  Tree t;
  t.busy({5});
  EXPECT_EQ(t.place(Tree::gang(1)), "n6");
  EXPECT_EQ(t.place(Tree::gang(1)), "n7");  // of s1 with four and s3 with three
  EXPECT_EQ(t.place(ask(1, 1, hours(1))), "n8");
  EXPECT_EQ(t.place(ask(1, 1, hours(1))), "n8");  // a node in use comes before the domain
}

TEST(Domains, light_nodes_come_first) {
  Tree t;
  for (const std::uint32_t n : {5, 6}) {
    Node node = *t.tables.node(NodeId{n});
    node.weight = 10;
    t.put(node);
  }
  EXPECT_EQ(t.place(Tree::gang(2)), "n7 n8");
}

TEST(Domains, whole_islands_stay_whole_where_a_broken_one_has_room) {
  MiniCore core;
  Driver driver;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 3; ++n) {
    core.add_node(n, 64, 8);
    Node node = *core.tables.node(NodeId{n});
    for (std::uint32_t d = 4; d < 8; ++d) node.devices[d].island = 1;
    core.put(node);
  }
  const auto place = [&](std::uint32_t devices, const std::string& node) {
    JobSpec spec = ask(1, devices, hours(1));
    if (!node.empty())
      spec.groups[0].only_nodes = {node};
    const JobId id = core.add_job(spec);
    driver.run(core, kNow);
    const Grant& grant = core.tables.job(id)->allocation->grants.at(0);
    return std::pair(grant.node.value, grant.devices);
  };
  place(4, "n1");                     // four left, an island
  place(3, "n2");                     // five left: one of a broken island and a whole one
  EXPECT_EQ(place(1, "").first, 2u);  // although n1 has less left
  const auto [node, devices] = place(4, "");
  EXPECT_EQ(node, 2u);
  for (std::uint32_t d = 4; d < 8; ++d) EXPECT_TRUE(devices.test(d));
  EXPECT_EQ(place(1, "").first, 1u);  // nothing broken is left: where there is least
  EXPECT_EQ(place(4, "").first, 3u);
}

TEST(Domains, ranks_follow_the_tree) {
  Tree t;
  for (const std::uint32_t n : {1, 9}) {
    Node node = *t.tables.node(NodeId{n});
    node.domains = t.paths[n == 1 ? 9 : 1];
    t.put(node);
  }
  EXPECT_EQ(t.place(Tree::gang(9)), "n2 n3 n4 n9 n5 n6 n1 n7 n8");
}

TEST(Domains, a_required_level_is_waited_for_and_promised) {
  Tree t;
  t.busy({1, 2, 5, 7}, seconds(500));
  t.busy({8}, seconds(900));
  JobSpec spec = Tree::gang(3);
  spec.groups[0].topology_level = "!leaf";
  const JobId id = t.add_job(spec);
  t.run(t, t.now);
  EXPECT_EQ(t.got(id), "");
  EXPECT_EQ(t.planner.expected_start(id), kNow + seconds(500));  // on s1; n3, n4, n6 and n9 are free now
  EXPECT_EQ(t.place(Tree::gang(1, hours(9))), "n6");             // a long one stays out of the promised place
  t.end(t.on_node[1]);
  t.run(t, t.now);
  EXPECT_EQ(t.got(id), "n1 n3 n4");
}

TEST(Domains, a_level_that_is_good_enough_is_not_undercut) {
  Tree t;
  t.busy({7, 8});
  JobSpec spec = Tree::gang(2);
  EXPECT_EQ(t.place(spec), "n5 n6");
  Tree u;
  spec.groups[0].topology_level = "spine";
  EXPECT_EQ(u.place(spec), "n7 n8");  // b has three nodes in all, a six
}

TEST(Domains, few_switches_are_waited_for_until_their_time_is_over) {
  Tree t;
  t.busy({1, 2, 3, 5, 7, 8});  // free: one node of each
  JobSpec spec = Tree::gang(2);
  spec.groups[0].switches_max = 1;
  spec.groups[0].switches_wait = Duration{kNow.us} + minutes(5);  // jobs here become eligible at 0
  const JobId first = t.add_job(spec);
  spec.groups[0].switches_wait = kForever;
  const JobId second = t.add_job(spec);
  t.run(t, t.now);
  EXPECT_EQ(t.got(first), "");
  const Instant until = kNow + minutes(5);
  EXPECT_LE(t.planner.wake_at(), until);
  t.now = until + millis(-1);
  t.run(t, t.now);
  EXPECT_EQ(t.got(first), "");
  t.now = until;
  t.run(t, t.now);
  EXPECT_EQ(t.got(first), "n4 n6");  // one spine, at least
  EXPECT_EQ(t.got(second), "");
  t.end(t.on_node[8]);
  t.run(t, t.now);
  EXPECT_EQ(t.got(second), "n8 n9");
}

TEST(Domains, two_switches_are_the_largest_two) {
  Tree t;
  JobSpec spec = Tree::gang(7);
  spec.groups[0].switches_max = 2;
  spec.groups[0].switches_wait = kForever;
  EXPECT_EQ(t.place(spec), "n1 n2 n3 n4 n7 n8 n9");
}

TEST(Domains, segments_are_whole_on_every_leaf) {
  Tree t;
  JobSpec spec = Tree::gang(8);
  spec.groups[0].segment = 2;
  EXPECT_EQ(t.place(spec), "n1 n2 n3 n4 n5 n6 n7 n8");
  Tree u;
  u.busy({1, 7});
  spec = Tree::gang(6);
  spec.groups[0].segment = 2;
  EXPECT_EQ(u.place(spec), "n2 n3 n5 n6 n8 n9");
  Tree v;
  v.busy({1, 7, 5});
  EXPECT_EQ(v.place(spec), "");
}

TEST(Domains, segments_hold_the_nodes_that_are_named) {
  const auto place = [](Tree& t, std::uint32_t nodes, std::vector<std::string> named, std::uint32_t segment = 2,
                        std::uint32_t switches = 0, const std::string& level = "") {
    JobSpec spec = Tree::gang(nodes);
    spec.groups[0].segment = segment;
    spec.groups[0].only_nodes = std::move(named);
    spec.groups[0].switches_max = switches;
    spec.groups[0].switches_wait = kForever;
    spec.groups[0].topology_level = level;
    return t.place(spec);
  };
  const auto anew = [&](auto... what) {
    Tree t;
    return place(t, what...);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(anew(2u, Names{"n8"}), "n7 n8");
  EXPECT_EQ(anew(4u, Names{"n8"}), "n5 n6 n7 n8") << "the tightest beside it";
  EXPECT_EQ(anew(4u, Names{"n1", "n8"}), "n1 n2 n7 n8");
  EXPECT_EQ(anew(4u, Names{"n1", "n2", "n3"}), "n1 n2 n3 n4");
  EXPECT_EQ(anew(4u, Names{"n1", "n5", "n8"}), "") << "six nodes would be needed";
  EXPECT_EQ(anew(4u, Names{"n2"}, 2u, 1u), "n1 n2 n3 n4");
  EXPECT_EQ(anew(4u, Names{"n2", "n5"}, 2u, 1u), "");
  EXPECT_EQ(anew(4u, Names{"n5"}, 2u, 2u), "n1 n2 n5 n6");
  EXPECT_EQ(anew(2u, Names{"n5"}, 2u, 0u, std::string("!leaf")), "n5 n6");
  EXPECT_EQ(anew(4u, Names{"n5"}, 2u, 0u, std::string("!leaf")), "") << "its leaf has two";
  EXPECT_EQ(anew(4u, Names{"n5"}, 2u, 0u, std::string("!spine")), "n1 n2 n5 n6");
  Tree busy;
  busy.busy({7, 9});
  EXPECT_EQ(place(busy, 2, {"n8"}), "") << "its leaf has no second one";
}

TEST(Domains, says_never_where_no_domain_is_large_enough) {
  Tree t;
  JobSpec spec = Tree::gang(4);
  spec.groups[0].topology_level = "!leaf";
  const JobId four = t.add_job(spec);
  Node node = *t.tables.node(NodeId{2});
  node.drain = true;
  t.put(node);
  spec = Tree::gang(5);
  spec.groups[0].topology_level = "!leaf";
  const JobId five = t.add_job(spec);
  spec.groups[0].topology_level = "!rack";
  const JobId rack = t.add_job(spec);
  t.run(t, t.now);
  EXPECT_EQ(t.notes[four].wait, Wait::kNodesUnavailable);
  EXPECT_EQ(t.notes[five].wait, Wait::kBadConstraints);
  EXPECT_EQ(t.notes[rack].wait, Wait::kBadConstraints);
  node.drain = false;
  t.put(node);
  t.run(t, t.now);
  EXPECT_EQ(t.got(four), "n1 n2 n3 n4");
}

TEST(Domains, tasks_without_a_number_of_nodes_stay_together_too) {
  Tree t;
  t.busy({1, 2, 5});
  JobSpec spec;
  spec.time_limit = hours(1);
  spec.groups.emplace_back();
  spec.groups[0].tasks = {9, 9};
  spec.groups[0].per_task.cores = 1;
  EXPECT_EQ(t.place(spec), "n7 n8 n9");
  Tree u;
  u.busy({1, 7, 5}, seconds(100));
  spec.groups[0].tasks = {13, 13};
  spec.groups[0].topology_level = "!leaf";
  const JobId id = u.add_job(spec);
  u.run(u, u.now);
  EXPECT_EQ(u.got(id), "");
  EXPECT_EQ(u.planner.expected_start(id), kNow + seconds(100));
  u.end(u.on_node[1]);
  u.run(u, u.now);
  EXPECT_EQ(u.got(id), "n1 n2 n3 n4");
}

TEST(Domains, without_a_topology_nothing_is_asked_of_it) {
  MiniCore core;
  Driver driver;
  core.add_partition("main", {"ALL"});
  for (std::uint32_t n = 1; n <= 4; ++n) core.add_node(n, 4, 4);
  JobSpec spec = Tree::gang(4);
  spec.groups[0].switches_max = 1;
  spec.groups[0].switches_wait = kForever;
  spec.groups[0].segment = 2;
  core.add_job(spec);
  EXPECT_EQ(driver.run(core, kNow), 1u);
}

TEST(Domains, a_tree_that_comes_and_goes_leaves_nothing_behind) {
  Tree t;
  const auto move = [&](bool away) {
    for (auto& [n, path] : t.paths) {
      Node node = *t.tables.node(NodeId{n});
      node.domains = away ? std::vector<std::string>() : path;
      t.put(node);
    }
  };
  move(true);
  EXPECT_EQ(t.place(Tree::gang(2)), "n1 n2");
  move(false);
  EXPECT_EQ(t.place(Tree::gang(2)), "n3 n4");  // s1 has two left, as s2, and comes before it
  EXPECT_EQ(t.place(Tree::gang(3)), "n7 n8 n9");
}

}  // namespace
}  // namespace lockstep
