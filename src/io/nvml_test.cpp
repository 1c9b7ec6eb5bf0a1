#include "io/nvml.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace lockstep {
namespace {

// The stand-in is beside this program: bin/../lib.
std::string standin() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
  const std::string path(self, static_cast<std::size_t>(n));
  return path.substr(0, path.rfind('/')) + "/../lib/libnvidia-ml.so.1";
}

Result<std::vector<Device>> devices_with(const std::string& text) {
  char path[] = "/tmp/lockstep-nvml-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << text;
  setenv("LOCKSTEP_STANDIN_NVML", path, 1);
  auto devices = make_nvml_devices(standin())->list();
  unlink(path);
  return devices;
}

TEST(Nvml, AMachineWithoutTheLibraryHasNoDevices) {
  const auto devices = make_nvml_devices("libno-such-library.so.1")->list();
  ASSERT_TRUE(devices);
  EXPECT_TRUE(devices->empty());
}

TEST(Nvml, ReadsTheTopology) {
  const auto devices = devices_with("# a comment\n\ncount = 8\ntype = h100\nisland = 4\n");
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->size(), 8u);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const Device& d = (*devices)[i];
    EXPECT_EQ(d.type, "h100");
    EXPECT_EQ(d.minor, i);
    EXPECT_EQ(d.memory_mb, 81559);
    EXPECT_TRUE(d.healthy);
    EXPECT_EQ(d.island, i < 4 ? 0 : 4);
    for (std::uint32_t j = 0; j < i; ++j) EXPECT_NE(d.uuid, (*devices)[j].uuid);
  }
}

TEST(Nvml, FaultsShow) {
  const auto devices = devices_with("count = 4\ntype = h200\nfault = 1 lost\nfault = 2 ecc\nfault = 3 missing\n");
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 3u) << "a missing device is not counted";
  EXPECT_TRUE((*devices)[0].healthy);
  EXPECT_FALSE((*devices)[1].healthy);
  EXPECT_EQ((*devices)[1].type, "h200") << "a lost device keeps its neighbours' type";
  EXPECT_FALSE((*devices)[2].healthy);
}

TEST(Nvml, AMalformedFileIsAnErrorThatNamesTheLine) {
  for (const char* bad :
       {"count = 4\nnonsense\n", "count = many\n", "count = 65\n", "count = 2\nfault = 1 tired\n", "island = 0\n"}) {
    const auto devices = devices_with(bad);
    ASSERT_FALSE(devices) << bad;
    EXPECT_NE(devices.error().message.find("line"), std::string::npos) << devices.error().message;
  }
}

TEST(Nvml, TypesOfProducts) {
  EXPECT_EQ(gpu_type_of("NVIDIA H100 80GB HBM3"), "h100");
  EXPECT_EQ(gpu_type_of("NVIDIA H200"), "h200");
  EXPECT_EQ(gpu_type_of("NVIDIA A100-SXM4-80GB"), "a100");
  EXPECT_EQ(gpu_type_of("Tesla V100-SXM2-32GB"), "v100");
  EXPECT_EQ(gpu_type_of("NVIDIA GeForce RTX 4090"), "rtx4090");
  EXPECT_EQ(gpu_type_of(""), "gpu");
}

TEST(Nvml, WhatIsNoPlainFileHoldsNobodyUp) {
  const std::string path = "/tmp/lockstep-nvml-fifo-" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  for (const std::string& bad : {path, std::string("/dev/zero")}) {
    setenv("LOCKSTEP_STANDIN_NVML", bad.c_str(), 1);
    const auto devices = make_nvml_devices(standin())->list();
    ASSERT_FALSE(devices.ok());
    EXPECT_NE(devices.error().message.find(bad + " is no regular file"), std::string::npos) << devices.error().message;
  }
  unlink(path.c_str());
  ASSERT_EQ(close(creat(path.c_str(), 0600)), 0);
  ASSERT_EQ(truncate(path.c_str(), off_t{1} << 40), 0);
  EXPECT_FALSE(make_nvml_devices(standin())->list().ok()) << "nor does a huge one";
  unlink(path.c_str());
}

}  // namespace
}  // namespace lockstep
