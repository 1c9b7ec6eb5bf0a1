// Specifications that are read back: equal ones are one again, and many that are nearly equal cost no more than others.
#include "model/spec_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "model/meta.h"

namespace lockstep {
namespace {

Ref<JobSpec> spec_with(std::int32_t nice, const std::string& comment = {}) {
  auto spec = std::make_shared<JobSpec>();
  spec->name = "alike";
  spec->nice = nice;
  spec->comment = comment;
  return spec;
}

TEST(SpecPool, EqualOnesAreOne) {
  SpecPool pool;
  const auto first = pool.share(spec_with(1, "a"));
  EXPECT_EQ(pool.share(spec_with(1, "a")), first);
  EXPECT_NE(pool.share(spec_with(1, "b")), first);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(pool.share(spec_with(1, format("c{}", i)))->comment, format("c{}", i));
  EXPECT_EQ(pool.share(spec_with(1, "c999")), pool.share(spec_with(1, "c999"))) << "texts tell them apart at once";
  EXPECT_EQ(pool.share(spec_with(1, "a")), first);
}

// A user with more variants than are compared has them shared all the same.
TEST(SpecPool, ThoseThatAskForOtherAmountsAreToldApartAtOnce) {
  const auto asks_for = [](std::uint32_t cores) {
    auto spec = std::make_shared<JobSpec>();
    spec->groups.resize(1);
    spec->groups[0].per_task.cores = cores;
    return spec;
  };
  SpecPool pool;
  std::vector<Ref<JobSpec>> first;
  for (std::uint32_t cores = 0; cores < 100; ++cores) first.push_back(pool.share(asks_for(cores)));
  for (std::uint32_t cores = 0; cores < 100; ++cores) EXPECT_EQ(pool.share(asks_for(cores)), first[cores]);
}

// 40,000 jobs that differed in a comment only made the controller compare each with all before it: minutes.
TEST(SpecPool, ThoseThatOnlyTheComparisonTellsApartAreNotComparedWithoutEnd) {
  SpecPool pool;
  std::set<Ref<JobSpec>> first;
  for (int nice = 0; nice < 100; ++nice) first.insert(pool.share(spec_with(nice)));
  int found = 0;
  for (int nice = 0; nice < 100; ++nice) {
    const auto again = pool.share(spec_with(nice));
    EXPECT_EQ(again->nice, nice);
    found += first.contains(again) ? 1 : 0;
  }
  EXPECT_GE(found, 1);
  EXPECT_LE(found, 10);
}

}  // namespace
}  // namespace lockstep
