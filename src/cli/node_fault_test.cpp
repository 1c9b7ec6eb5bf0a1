#include "cli/node_fault.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(NodeFault, KnowsWhatAGpuCanHave) {
  for (const char* fault : {"lost", "ecc", "ecc=0", "xid=79", "xid=999", "link=17", "throttle=power", "remap=failure"})
    EXPECT_TRUE(is_gpu_fault(fault)) << fault;
  for (const char* fault :
       {"", "none", "xid", "xid=", "xid=0", "xid=1000", "xid=7 9", "link=18", "throttle=", "lost=1", "lost\ncount = 9"})
    EXPECT_FALSE(is_gpu_fault(fault)) << fault;
}

TEST(NodeFault, AddsAndMendsThoseOfOneGpu) {
  const std::string text = "# a\ncount = 4\nfault = 1 lost\n fault=2 ecc\n";
  EXPECT_EQ(with_gpu_faults(text, 2, {"xid=48", "link=3"}),
            "# a\ncount = 4\nfault = 1 lost\n fault=2 ecc\nfault = 2 xid=48\nfault = 2 link=3\n");
  EXPECT_EQ(with_gpu_faults(text, 2, {"none"}), "# a\ncount = 4\nfault = 1 lost\n");
  EXPECT_EQ(with_gpu_faults(text, 3, {"none"}), text);
}

}  // namespace
}  // namespace lockstep
