#include "io/mig_capabilities.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(MigCapabilities, AreThoseOfTheJobsInstancesAlone) {
  constexpr const char* kList =
      "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi1/ci1/access 14\n"
      "gpu3/gi7/access 300\ngpu3/gi7/ci0/access 301\ngpu3/gi9/access 320\n";
  std::vector<Device> devices(2);
  devices[1].minor = 3;
  const std::vector<MigSlice> slices = {{1, "1g.10gb", 0, "MIG-a", 7, 0}, {0, "1g.10gb", 0, "MIG-b", 1, 0}};
  EXPECT_EQ(mig_capabilities(kList, devices, slices), (std::vector<std::uint32_t>{12, 13, 300, 301}));
  EXPECT_EQ(mig_capabilities(kList, devices, {{5, "1g.10gb", 0, "", 1, 0}}), std::vector<std::uint32_t>{});
  EXPECT_EQ(mig_capabilities("gpu0/gi1/access x\ngpu0/gi1/ci0/access\n", devices, {{0, "", 0, "", 1, 0}}),
            std::vector<std::uint32_t>{});
}

}  // namespace
}  // namespace lockstep
