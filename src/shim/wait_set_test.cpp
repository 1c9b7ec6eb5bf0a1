#include "shim/wait_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep {
namespace {

TEST(WaitSet, TellsWhatIsReadyInItsOrder) {
  int first[2], second[2];
  ASSERT_EQ(::pipe(first), 0);
  ASSERT_EQ(::pipe(second), 0);
  WaitSet set;
  set.add(second[0], POLLIN, {Awaited::What::kOutput, 7, 1});
  set.add(first[0], POLLIN, {Awaited::What::kListener});
  set.add(-1, POLLIN, {Awaited::What::kStarter});
  set.add(first[1], POLLOUT, {Awaited::What::kInput, 3});
  EXPECT_TRUE(set.wait(0));
  ASSERT_EQ(set.ready().size(), 1u) << "there is room to write";
  EXPECT_EQ(set.ready()[0].index, 3u);
  ASSERT_EQ(::write(first[1], "x", 1), 1);
  ASSERT_EQ(::write(second[1], "x", 1), 1);
  EXPECT_TRUE(set.wait(kWaitForEver));
  const auto ready = set.ready();
  ASSERT_EQ(ready.size(), 3u);
  EXPECT_EQ(ready[0].what, Awaited::What::kOutput);
  EXPECT_EQ(ready[0].index, 7u);
  EXPECT_EQ(ready[0].stream, 1);
  EXPECT_EQ(ready[1].what, Awaited::What::kListener);
  EXPECT_EQ(ready[2].what, Awaited::What::kInput);
  for (const int fd : {first[0], first[1], second[0], second[1]}) ::close(fd);
}

TEST(WaitSet, AnEndIsReadyToo) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[1]);
  WaitSet set;
  set.add(ends[0], POLLIN, {Awaited::What::kClient, 2});
  EXPECT_TRUE(set.wait(kWaitForEver));
  ASSERT_EQ(set.ready().size(), 1u);
  ::close(ends[0]);
}

TEST(WaitSet, OfNothingNothingComes) {
  WaitSet set;
  EXPECT_TRUE(set.wait(1));
  EXPECT_TRUE(set.ready().empty());
}

}  // namespace
}  // namespace lockstep
