// IdMap and IdSet against the standard containers.
#include "base/id_map.h"

#include <gtest/gtest.h>

#include <set>

#include "base/id.h"
#include "base/rng.h"

namespace lockstep {
namespace {

using TestId = Id<struct TestTag, std::uint64_t>;

void expect_same(const IdMap<TestId, int>& map, const std::map<TestId, int>& plain) {
  ASSERT_EQ(map.size(), plain.size());
  ASSERT_EQ(map.empty(), plain.empty());
  auto at = plain.begin();
  for (const auto& [id, value] : map) {
    ASSERT_EQ(id, at->first);
    ASSERT_EQ(value, at->second);
    ++at;
  }
  ASSERT_EQ(at, plain.end());
  if (plain.empty())
    return;
  ASSERT_EQ(map.last_key(), plain.rbegin()->first);
}

// The iterator stands where the standard one does, and goes on from there.
template <class At, class PlainAt>
void expect_at(const IdMap<TestId, int>& map, At at, const std::map<TestId, int>& plain, PlainAt expected) {
  for (int steps = 0; steps < 70; ++steps, ++at, ++expected) {
    ASSERT_EQ(at == map.end(), expected == plain.end());
    if (expected == plain.end())
      return;
    ASSERT_EQ(at->first, expected->first);
    ASSERT_EQ(at->second, expected->second);
  }
}

TEST(IdMap, DoesWhatAnOrderedMapDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    IdMap<TestId, int> map;
    std::map<TestId, int> plain;
    const std::uint64_t span = seed % 2 ? 300 : 100'000;  // dense, and far apart
    for (int step = 0; step < 2000; ++step) {
      const TestId id(rng.below(span));
      switch (rng.below(4)) {
        case 0:
        case 1: map[id] = plain[id] = step; break;
        case 2: ASSERT_EQ(map.erase(id), plain.erase(id)); break;
        default: {
          const auto found = plain.find(id);
          ASSERT_EQ(map.contains(id), found != plain.end());
          ASSERT_EQ(map.get(id) != nullptr, found != plain.end());
          if (found != plain.end()) {
            ASSERT_EQ(map.at(id), found->second);
          }
          expect_at(map, map.find(id), plain, found);
          expect_at(map, map.lower_bound(id), plain, plain.lower_bound(id));
          expect_at(map, map.upper_bound(id), plain, plain.upper_bound(id));
        }
      }
    }
    expect_same(map, plain);
    const IdMap<TestId, int> copy = map;
    while (!plain.empty()) {
      ASSERT_EQ(map.erase(plain.begin()->first), 1u);
      plain.erase(plain.begin());
    }
    expect_same(map, plain);
    EXPECT_EQ(map.begin(), map.end());
    EXPECT_FALSE(copy.empty());
  }
}

TEST(IdSet, DoesWhatAnOrderedSetDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    IdSet<TestId> set;
    std::set<TestId> plain;
    for (int step = 0; step < 2000; ++step) {
      const TestId id(rng.below(400));
      if (rng.below(2)) {
        set.insert(id);
        plain.insert(id);
      } else {
        ASSERT_EQ(set.erase(id), plain.erase(id));
      }
      ASSERT_EQ(set.empty(), plain.empty());
      if (!plain.empty()) {
        ASSERT_EQ(set.front(), *plain.begin());
      }
      ASSERT_EQ(set.contains(TestId(step % 400)), plain.contains(TestId(step % 400)));
    }
    IdSet<TestId> again;
    for (const TestId id : plain) again.insert(id);
    EXPECT_EQ(again, set);
    again.insert(TestId(1000));
    EXPECT_NE(again, set);
  }
}

}  // namespace
}  // namespace lockstep
