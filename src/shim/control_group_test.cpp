#include "shim/control_group.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

// The kernel's side of the files: its tests with real groups are those of io/local/cgroups.
class GroupFiles : public testing::Test {
 protected:
  GroupFiles() {
    char name[] = "/tmp/lockstep-group-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~GroupFiles() override { std::filesystem::remove_all(dir_); }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  std::string text_in(const std::string& name) {
    std::ifstream in(dir_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string dir_;
};

TEST_F(GroupFiles, OnlyKillsSinceItBeganCount) {
  const std::string oom = file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  ControlGroup group(oom, "");
  EXPECT_EQ(group.oom_kills(), 0u);
  file("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(group.oom_kills(), 3u);
}

TEST_F(GroupFiles, FreezesBothVersions) {
  ControlGroup first("", file("freezer.state", "THAWED\n"));
  EXPECT_TRUE(first.freeze());
  EXPECT_EQ(text_in("freezer.state").substr(0, 6), "FROZEN");
  file("freezer.state", "FREEZING\n");
  EXPECT_FALSE(first.is_frozen());
  file("freezer.state", "FROZEN\n");
  EXPECT_TRUE(first.is_frozen());
  first.thaw();
  EXPECT_EQ(text_in("freezer.state").substr(0, 6), "THAWED");

  ControlGroup second("", file("cgroup.freeze", "0\n"));
  file("cgroup.events", "populated 1\nfrozen 0\n");
  EXPECT_TRUE(second.freeze());
  EXPECT_EQ(text_in("cgroup.freeze").front(), '1');
  EXPECT_FALSE(second.is_frozen());
  file("cgroup.events", "populated 1\nfrozen 1\n");
  EXPECT_TRUE(second.is_frozen());
  second.thaw();
  EXPECT_EQ(text_in("cgroup.freeze").front(), '0');
  EXPECT_FALSE(second.is_frozen());
}

TEST_F(GroupFiles, ThereMayBeNone) {
  ControlGroup none("", "");
  EXPECT_EQ(none.oom_kills(), 0u);
  EXPECT_FALSE(none.freeze());
  EXPECT_FALSE(none.is_frozen());
  ControlGroup lost(dir_ + "/gone/memory.events", dir_ + "/gone/cgroup.freeze");
  EXPECT_EQ(lost.oom_kills(), 0u);
  EXPECT_FALSE(lost.freeze());
}

}  // namespace
}  // namespace lockstep
