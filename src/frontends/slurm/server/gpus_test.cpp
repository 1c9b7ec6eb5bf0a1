#include "frontends/slurm/server/gpus.h"

#include <gtest/gtest.h>

namespace lockstep::slurm {
namespace {

Node node_with_nic_first() {
  Node node;
  Device nic;
  nic.kind = "nic";
  node.devices.push_back(nic);
  for (std::uint32_t i = 0; i < 4; ++i) {
    Device gpu;
    gpu.type = "h100";
    gpu.minor = i + 4;
    node.devices.push_back(gpu);
  }
  return node;
}

TEST(Gpus, OtherDevicesDoNotCount) {
  DeviceSet held;
  held.set(0);
  held.set(2);
  held.set(4);
  const auto gpus = gpus_of(node_with_nic_first(), held);
  EXPECT_EQ(minor_list(gpus), "5,7");
  EXPECT_EQ(index_list(gpus), "1,3");
  EXPECT_EQ(visibility_env(gpus)[0], "CUDA_VISIBLE_DEVICES=1,3");
}

TEST(Gpus, MakersHaveTheirOwnVariables) {
  EXPECT_EQ(visibility_env({{0, 0, "mi300x"}})[0], "ROCR_VISIBLE_DEVICES=0");
  EXPECT_EQ(visibility_env({{0, 0, "max1550"}})[0], "ZE_AFFINITY_MASK=0");
  EXPECT_EQ(visibility_env({{0, 0, "mig-1g.10gb"}})[0], "CUDA_VISIBLE_DEVICES=0");
  EXPECT_TRUE(visibility_env({}).empty());
}

TEST(Gpus, Bindings) {
  const auto gpus = gpus_of(node_with_nic_first(), DeviceSet::first_n(5));
  const auto bound = [&](std::string_view how, std::uint32_t each, std::uint32_t rank) {
    return index_list(bound_gpus(gpus, how, each, rank));
  };
  EXPECT_EQ(bound("", 0, 1), "0,1,2,3");
  EXPECT_EQ(bound("", 1, 2), "2");
  EXPECT_EQ(bound("none", 1, 2), "0,1,2,3");
  EXPECT_EQ(bound("closest", 0, 2), "0,1,2,3");
  EXPECT_EQ(bound("per_task:2", 0, 1), "2,3");
  EXPECT_EQ(bound("single:2", 0, 3), "1");
  EXPECT_EQ(bound("map_gpu:3,1", 0, 1), "1");
  EXPECT_EQ(bound("verbose,mask_gpu:0x3,0xc", 0, 1), "2,3");
  EXPECT_EQ(bound("map_gpu:99", 0, 0), "0,1,2,3");  // names nothing here: nothing is hidden
  EXPECT_EQ(bound("per_task:x", 0, 0), "0,1,2,3");
  EXPECT_EQ(bound("per_task:9", 0, 1), "0,1,2,3");
  EXPECT_EQ(bound("map_gpu:3*2,1", 0, 1), "3");
  EXPECT_EQ(bound("map_gpu:0x3*2,1", 0, 1), "3");
  EXPECT_EQ(bound("map_gpu:3*2,1", 0, 2), "1");
  EXPECT_EQ(bound("q,single:1", 0, 2), "2");
}

TEST(Gpus, TheClosestAreThoseAtTheTasksMemory) {
  Node node = node_with_nic_first();
  node.numa = {CoreSet::first_n(4), CoreSet::first_n(8).minus(CoreSet::first_n(4))};
  for (std::size_t i = 1; i < 5; ++i) node.devices[i].numa = i > 2 ? 1 : 0;
  const auto gpus = gpus_of(node, DeviceSet::first_n(5));
  CoreSet high;
  high.set(6);
  EXPECT_EQ(memory_nodes_of(node, high), std::vector<std::int32_t>{1});
  EXPECT_EQ(index_list(bound_gpus(gpus, "closest", 0, 0, memory_nodes_of(node, high))), "2,3");
  EXPECT_EQ(index_list(bound_gpus(gpus, "closest", 0, 0, memory_nodes_of(node, CoreSet::first_n(8)))), "0,1,2,3");
  EXPECT_EQ(index_list(bound_gpus(gpus, "closest", 0, 0, {7})), "0,1,2,3") << "none is closer than another";
  EXPECT_EQ(cores_near(node, {gpus[0]}), CoreSet::first_n(4));
  EXPECT_FALSE(cores_near(node_with_nic_first(), gpus).any());
}

TEST(Gpus, SlicesStandForTheirGpu) {
  const Node node = node_with_nic_first();
  DeviceSet held;
  held.set(1);
  held.set(3);
  const std::vector<DevicePart> parts = {{1, 0, 10'000, "1g.10gb", 0}, {1, 0, 10'000, "1g.10gb", 4}};
  const auto gpus = gpus_of(node, held, parts);
  EXPECT_EQ(minor_list(gpus), "4,6");
  EXPECT_EQ(index_list(gpus), "MIG:1:1g.10gb:0,MIG:1:1g.10gb:4,2");
  EXPECT_EQ(index_list(bound_gpus(gpus, "per_task:1", 0, 1)), "MIG:1:1g.10gb:4");
  EXPECT_EQ(index_list(gpus_of(node, held, {{1, 500, 0, "", 0}})), "0,2") << "a share is seen as the GPU";
}

}  // namespace
}  // namespace lockstep::slurm
