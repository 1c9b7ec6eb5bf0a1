#include "io/gpu_numbers.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(GpuNumbers, CountThoseThatAreGiven) {
  const std::vector<ShimDevice> gpus = {{0, false}, {1, true}, {2, false}, {3, true}};
  std::vector<std::string> env = {"A=3", "CUDA_VISIBLE_DEVICES=1,3", "GPU_DEVICE_ORDINAL=3",
                                  "CUDA_VISIBLE_DEVICES_X=3"};
  renumber_gpus(env, gpus);
  EXPECT_EQ(env, (std::vector<std::string>{"A=3", "CUDA_VISIBLE_DEVICES=0,1", "GPU_DEVICE_ORDINAL=1",
                                           "CUDA_VISIBLE_DEVICES_X=3"}));
}

TEST(GpuNumbers, WhatIsNoNumberOfOursStays) {
  const std::vector<ShimDevice> gpus = {{0, false}, {1, true}};
  std::vector<std::string> env = {"CUDA_VISIBLE_DEVICES=GPU-12,NoDevFiles,0,9,1", "GPU_DEVICE_ORDINAL="};
  renumber_gpus(env, gpus);
  EXPECT_EQ(env, (std::vector<std::string>{"CUDA_VISIBLE_DEVICES=GPU-12,NoDevFiles,0,9,0", "GPU_DEVICE_ORDINAL="}));
}

}  // namespace
}  // namespace lockstep
