// Which control groups a host has, from the two files in which the kernel says it.
#include "io/local/cgroup_host.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr const char* kV1 =
    "23 29 0:21 / /sys rw - sysfs sysfs rw\n"
    "31 30 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    "35 30 0:31 / /sys/fs/cgroup/un\\040ified rw - cgroup2 cgroup2 rw\n";
constexpr const char* kOwnV1 =
    "5:name=systemd:/x\n4:pids:/docker/abc/own\n3:cpu,cpuacct:/a\n2:memory:/a/b:c\n0::/unit\n";

std::string none(const std::string&) { return ""; }

TEST(CgroupHost, VersionOneHasADirectoryForEachController) {
  const auto host = read_cgroup_host(kV1, kOwnV1, none);
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(host->version, CgroupVersion::kV1);
  EXPECT_EQ(host->dir("memory"), "/sys/fs/cgroup/memory/a/b:c");
  EXPECT_EQ(host->dir("cpuacct"), "/sys/fs/cgroup/cpu,cpuacct/a");
  EXPECT_EQ(host->dir("pids"), "/sys/fs/cgroup/pids/own") << "what is mounted begins at /docker/abc";
  EXPECT_FALSE(host->has("freezer"));
}

TEST(CgroupHost, VersionTwoIsTakenWhereItLimitsMemoryAndProcesses) {
  std::string asked;
  const auto host = read_cgroup_host(kV1, kOwnV1, [&](const std::string& dir) {
    asked = dir;
    return "cpuset memory pids\n";
  });
  ASSERT_TRUE(host.ok()) << host.error().message;
  EXPECT_EQ(asked, "/sys/fs/cgroup/un ified/unit");
  EXPECT_EQ(host->version, CgroupVersion::kV2);
  EXPECT_EQ(host->dir("memory"), asked);
  EXPECT_EQ(host->dir("freezer"), asked) << "every group has one";
  const auto half = read_cgroup_host(kV1, kOwnV1, [](const std::string&) { return "memory\n"; });
  EXPECT_EQ(half->version, CgroupVersion::kV1);
}

TEST(CgroupHost, AHostWithoutAnySaysWhatIsMissing) {
  EXPECT_NE(read_cgroup_host("", "", none).error().message.find("no control groups are mounted"), std::string::npos);
  const char* only_v2 = "35 30 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_NE(read_cgroup_host(only_v2, "0::/\n", none).error().message.find("memory and pids"), std::string::npos);
  // A group outside of what is mounted, as in a container that sees another's mount.
  const char* elsewhere = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
  EXPECT_FALSE(read_cgroup_host(elsewhere, "2:memory:/docker/abcd\n", none).ok());
}

TEST(CgroupHost, NoiseIsNoHost) {
  for (const char* text :
       {"-", "a b c d e f - cgroup", "36 35 98:0 / /x rw - cgroup cgroup", ":::", "1:2", "\n\n", "2:memory"})
    EXPECT_FALSE(read_cgroup_host(text, text, none).ok()) << text;
}

}  // namespace
}  // namespace lockstep
