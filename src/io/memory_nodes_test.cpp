#include "io/memory_nodes.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

TEST(MemoryNodes, AreReadAsTheKernelShowsThem) {
  char folder[] = "/tmp/lockstep-sysfs-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder));
  const std::filesystem::path root = folder;
  const auto write = [&root](const std::string& path, const char* text) {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  write("devices/system/node/online", "0,2\n");
  write("devices/system/node/node0/cpulist", "0-1,4\n");
  write("devices/system/node/node2/cpulist", "2-3\n");
  write("bus/pci/devices/0000:17:00.0/numa_node", "2\n");
  write("bus/pci/devices/0000:18:00.0/numa_node", "-1\n");
  setenv("LOCKSTEP_SYSFS", folder, 1);
  const auto nodes = memory_nodes();
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0], cores_of_list("0,1,4"));
  EXPECT_FALSE(nodes[1].any());
  EXPECT_EQ(nodes[2], cores_of_list("2,3"));
  EXPECT_EQ(memory_node_of("00000000:17:00.0"), 2);
  EXPECT_EQ(memory_node_of("00000000:18:00.0"), -1);
  EXPECT_EQ(memory_node_of("../../x"), -1);
  unsetenv("LOCKSTEP_SYSFS");
  std::filesystem::remove_all(root);
}

TEST(MemoryNodes, OfThisMachineHaveItsProcessors) {
  for (const CoreSet& cores : memory_nodes()) EXPECT_LE(cores.count(), CoreSet::kCapacity);
  EXPECT_EQ(cores_of_list("0-99999999999"), CoreSet::first_n(CoreSet::kCapacity));
  EXPECT_FALSE(cores_of_list("x,-,3-1,\n").any());
}

}  // namespace
}  // namespace lockstep
