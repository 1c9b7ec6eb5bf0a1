#include "frontends/kube/controllers/due_work.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

Work work_in(const char* ns, const char* name) { return {0, {"pods", ns, name}}; }

TEST(DueWork, NamespacesTakeTurnsByCost) {
  DueWork due;
  for (const char* name : {"1", "2", "3", "4", "5", "6"}) due.add(work_in("a", name));
  for (const char* name : {"1", "2", "3"}) due.add(work_in("z", name));
  std::string order;
  while (!due.empty()) {
    const Work work = due.take();
    const std::string ns = std::get<1>(work.second);
    due.charge(work, ns == "a" ? 100 : 40);
    order += ns;
  }
  EXPECT_EQ(order, "azzzaaaaa") << "three looks of the one cost little more than one of the other";
}

TEST(DueWork, WorkIsDueOnce) {
  DueWork due;
  due.add(work_in("a", "1"));
  due.add(work_in("a", "1"));
  due.charge(due.take(), 5);
  EXPECT_TRUE(due.empty());
  due.add(work_in("a", "1"));
  EXPECT_FALSE(due.empty());
}

TEST(DueWork, NobodySavesTurns) {
  DueWork due;
  for (int i = 0; i < 10; ++i) {
    due.add(work_in("a", "1"));
    due.charge(due.take(), 1000);
  }
  due.add(work_in("z", "1"));  // it was not there all the time: that is no claim
  due.add(work_in("z", "2"));
  due.add(work_in("a", "1"));
  due.charge(due.take(), 1500);
  EXPECT_EQ(std::get<1>(due.take().second), "a");
}

}  // namespace
}  // namespace lockstep::kube
