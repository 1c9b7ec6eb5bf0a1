#include "services/culprits.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace lockstep {
namespace {

ServiceKey key(int i) { return {"lab", format("s{}", 1000 + i)}; }

// Tries until nothing is looked for; how many that took.
int look(Culprits& culprits, const std::set<ServiceKey>& all, const std::set<ServiceKey>& bad) {
  culprits.begin(all);
  int tries = 0;
  while (culprits.is_looking()) {
    const std::set<ServiceKey> left_out = culprits.left_out();
    bool taken = true;
    for (const ServiceKey& one : bad) taken = taken && (left_out.contains(one) || !all.contains(one));
    culprits.tried(taken);
    ++tries;
  }
  return tries;
}

TEST(Culprits, AreFoundInFewTries) {
  std::set<ServiceKey> all;
  for (int i = 0; i < 512; ++i) all.insert(key(i));
  Culprits culprits;
  EXPECT_LE(look(culprits, all, {key(77)}), 21);
  EXPECT_EQ(culprits.found(), (std::set<ServiceKey>{key(77)}));
  EXPECT_EQ(culprits.left_out(), culprits.found());
  Culprits several;
  EXPECT_LE(look(several, all, {key(0), key(300), key(511)}), 60);
  EXPECT_EQ(several.found(), (std::set<ServiceKey>{key(0), key(300), key(511)}));
  several.forget(key(300));
  EXPECT_EQ(several.left_out(), (std::set<ServiceKey>{key(0), key(511)}));
}

TEST(Culprits, NobodyIsAtFaultWhereNothingAtAllIsTaken) {
  Culprits culprits;
  culprits.begin({key(1), key(2)});
  EXPECT_EQ(culprits.left_out().size(), 2u);
  culprits.tried(false);
  EXPECT_FALSE(culprits.is_looking());
  EXPECT_TRUE(culprits.found().empty());
}

TEST(Culprits, OneThatIsGoneMeanwhileIsNoneAnyMore) {
  Culprits culprits;
  culprits.begin({key(1), key(2)});
  culprits.tried(true);
  culprits.forget(key(1));
  culprits.forget(key(2));
  EXPECT_FALSE(culprits.is_looking());
  EXPECT_TRUE(culprits.left_out().empty());
}

}  // namespace
}  // namespace lockstep
