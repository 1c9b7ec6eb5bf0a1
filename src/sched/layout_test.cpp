// What shapes come to on every class, brought forward class by class, against the same worked out anew.
#include "sched/place.h"
#include "sched/testing.h"

namespace lockstep {
namespace {

bool same_need(const ClassNeed& a, const ClassNeed& b) {
  return a.cls == b.cls && a.amounts == b.amounts && a.share == b.share && a.nodes == b.nodes &&
         a.takes_node == b.takes_node && a.counted == b.counted && a.all_memory == b.all_memory;
}

struct LayoutWorld : MiniCore {
  PlannerView view;
  int counted = 0;  // briefs compared

  LayoutWorld() {
    add_partition("main", {"ALL"});
    add_partition("side", {"n1", "n2", "n5"});
    for (std::uint32_t n = 1; n <= 8; ++n) node(n, n % 3 + 1, 1'000'000 - n);
  }
  void node(std::uint32_t n, std::uint32_t devices, std::int64_t memory_mb) {
    Node node;
    node.id = NodeId{n};
    node.meta.name = format("n{}", n);
    node.cores = 8;
    node.memory_mb = memory_mb;
    node.tmp_disk_mb = 100;
    node.link = NodeLink::kUp;
    for (std::uint32_t d = 0; d < devices; ++d) node.devices.push_back({.type = "h100"});
    put(node);
  }
  void reserve(const std::string& name, std::vector<std::string> nodes, bool removed = false) {
    Reservation reservation;
    reservation.meta.name = name;
    reservation.nodes = std::move(nodes);
    reservation.start = WallTime{kNow.us + hours(1).us};
    reservation.duration = hours(1);
    put(reservation, removed);
  }
  void jobs(Rng& rng) {
    for (int n = 0; n < 40; ++n) {
      JobSpec spec = random_ask(rng);
      GroupSpec& group = spec.groups[0];
      group.per_task.memory_mb = rng.chance(0.3) ? rng.between(999'980, 1'000'000) : 100;
      if (rng.chance(0.2))
        group.tmp_disk_mb = rng.between(50, 150);
      if (rng.chance(0.3))
        group.nodes.max += 1;
      if (rng.chance(0.1))
        group.all_memory = true;
      add_job(std::move(spec));
    }
  }
  // What the brief counts is what its way comes to.
  void counts(const ShapeBrief& brief, Shape& shape, const char* when) {
    if (brief.kind != ShapeBrief::Kind::kCounted)
      return;
    ++counted;
    const std::vector<ClassNeed>& needs = view.ways(shape).at(0).groups.at(0).needs;
    ASSERT_EQ(brief.needs, needs.size()) << when;
    for (std::size_t n = 0; n < needs.size(); ++n) {
      const AlikeNodes& cls = view.classes()[needs[n].cls];
      EXPECT_EQ(brief.demands[n], demand_of(needs[n], cls)) << when;
      EXPECT_EQ(brief.memory_mb[n], needs[n].amounts.memory_mb) << when;
      EXPECT_EQ(brief.alone[n], cls.usable >= needs[n].nodes) << when;
      EXPECT_LE(needs[n].amounts.memory_mb, cls.memory_least_mb) << when;
    }
  }
  // Number of classes that some shape needs.
  std::size_t check(const char* when) {
    for (const Change& change : drain()) view.observe(change);
    std::set<ClassNo> used;
    for (Shape& shape : view.shapes()) {
      if (!shape.spec)
        continue;
      const auto number = static_cast<std::uint32_t>(&shape - view.shapes().data());
      std::uint64_t work = 0;
      judge(view, number, work);
      counts(view.briefs()[number], shape, when);
      for (const Way& way : view.ways(shape)) {
        const auto anew = groups_on(*shape.spec, *view.partitions()[way.partition], way.partition, view.classes());
        EXPECT_EQ(way.groups.size(), anew.size()) << when;
        for (std::size_t g = 0; g < anew.size(); ++g) {
          EXPECT_EQ(way.groups[g].exact, anew[g].exact) << when;
          EXPECT_TRUE(std::equal(way.groups[g].needs.begin(), way.groups[g].needs.end(), anew[g].needs.begin(),
                                 anew[g].needs.end(), same_need))
              << when;
          for (const ClassNeed& need : way.groups[g].needs) used.insert(need.cls);
        }
      }
    }
    return used.size();
  }
};

TEST(Layout, a_class_that_comes_later_is_seen_as_if_it_had_been_there) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    LayoutWorld w;
    w.jobs(rng);
    const std::size_t at_first = w.check("at first");
    const std::uint64_t laid_out = w.view.laid_out();
    w.reserve("r1", {"n1", "n2", "n3"});
    EXPECT_GT(w.check("reserved"), at_first);
    w.reserve("r2", {"n3", "n4"});
    w.check("reserved twice");
    w.node(9, 2, 999'985);  // less memory than any of its class
    w.node(10, 7, 1'000'000);
    w.check("nodes came");
    w.reserve("r1", {}, true);
    w.check("free again");
    w.reserve("r3", {"ALL"});
    w.check("all reserved");
    EXPECT_EQ(w.view.laid_out(), laid_out) << "shapes were worked out anew";
    w.add_partition("side", {"n3", "n10"});
    w.check("another partition");
    EXPECT_GT(w.view.laid_out(), laid_out);
    EXPECT_GT(w.counted, 0);
  }
}

}  // namespace
}  // namespace lockstep
