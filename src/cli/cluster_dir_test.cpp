#include "cli/cluster_dir.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/test_dir.h"

namespace lockstep {
namespace {

ClusterConf two_nodes() {
  ClusterConf conf;
  conf.name = "alpha";
  conf.nodes = 2;
  conf.gpus = "8xh100";
  conf.port = 7000;
  return conf;
}

TEST(ClusterDir, IsNamedByOptionThenVariableThenHome) {
  const std::string before = getenv("HOME") ? getenv("HOME") : "";
  setenv("LOCKSTEP_DIR", "/somewhere/a", 1);
  setenv("HOME", "/home/ann", 1);
  EXPECT_EQ(cluster_dir("/else/b").root, "/else/b");
  EXPECT_EQ(cluster_dir("").root, "/somewhere/a");
  unsetenv("LOCKSTEP_DIR");
  EXPECT_EQ(cluster_dir("").root, "/home/ann/.lockstep/default");
  setenv("HOME", before.c_str(), 1);
  EXPECT_EQ(cluster_dir("sub").root.front(), '/');
}

// What is installed on a machine is meant before what its users have in their homes.
TEST(ClusterDir, WithoutADirectoryTheInstalledClusterIsMeant) {
  TestDir test;
  const std::string& root = test.dir().root;
  setenv("LOCKSTEP_INSTALL_ROOT", root.c_str(), 1);
  unsetenv("LOCKSTEP_DIR");
  EXPECT_EQ(cluster_dir("").kind, ClusterDir::Kind::kOwn);
  ASSERT_EQ(system(("mkdir -p " + root + "/etc/lockstep").c_str()), 0);
  test.write("etc/lockstep/agent.json", "{}");
  EXPECT_EQ(cluster_dir("").kind, ClusterDir::Kind::kNode);
  EXPECT_EQ(cluster_dir("").socket(), root + "/run/lockstep-agent/api.sock");
  test.write("etc/lockstep/lockstepd.conf", "LISTEN=127.0.0.1:6820\n");
  const ClusterDir installed = cluster_dir("");
  EXPECT_EQ(installed.kind, ClusterDir::Kind::kController);
  EXPECT_EQ(installed.socket(), root + "/var/lib/lockstep/controller/public/api.sock");
  EXPECT_TRUE(installed.exists() && installed.is_ours());
  EXPECT_EQ(cluster_dir(root + "/var/lib/lockstep/controller/").kind, ClusterDir::Kind::kController);
  EXPECT_EQ(cluster_dir("/else").kind, ClusterDir::Kind::kOwn);
  setenv("LOCKSTEP_DIR", "/else", 1);
  EXPECT_EQ(cluster_dir("").root, "/else");
  unsetenv("LOCKSTEP_DIR");
  unsetenv("LOCKSTEP_INSTALL_ROOT");
}

TEST(ClusterDir, KeepsItsSettingsTwice) {
  TestDir test;
  EXPECT_FALSE(test.dir().exists());
  EXPECT_FALSE(test.dir().is_ours());
  ASSERT_TRUE(test.dir().save(two_nodes()).ok());
  EXPECT_TRUE(test.dir().exists());
  const auto loaded = test.dir().load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->name, "alpha");
  EXPECT_EQ(loaded->nodes, 2u);
  EXPECT_EQ(loaded->damage, "");
}

TEST(ClusterDir, TheCopyServesWhereTheSettingsAreDamaged) {
  TestDir test;
  ASSERT_TRUE(test.dir().save(two_nodes()).ok());
  test.write(kConfFile, "{ torn");
  const auto loaded = test.dir().load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->name, "alpha");
  EXPECT_NE(loaded->damage.find(std::string(kConfFile) + " is damaged"), std::string::npos) << loaded->damage;
  test.write(kConfCopyFile, "{ torn");
  const auto none = test.dir().load();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Errc::kCorrupt);
  EXPECT_NE(none.error().message.find("Restore one of them from a backup"), std::string::npos);
}

TEST(ClusterDir, NotesOfProcessesMakeItOursWithoutSettings) {
  TestDir test;
  test.write("controller.run", "");
  EXPECT_FALSE(test.dir().exists());
  EXPECT_TRUE(test.dir().is_ours());
}

TEST(ClusterDir, NodesAreNumberedOrThisMachine) {
  EXPECT_EQ(node_names(two_nodes()), (std::vector<std::string>{"n1", "n2"}));
  const auto plain = node_names(ClusterConf{});
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].find('.'), std::string::npos);
}

TEST(ClusterDir, GpusAreACountAndAType) {
  EXPECT_EQ(parse_gpus("8xH100")->count, 8u);
  EXPECT_EQ(parse_gpus("8xH100")->type, "h100");
  EXPECT_EQ(parse_gpus("4")->type, "h100");
  EXPECT_EQ(parse_gpus("")->count, 0u);
  for (const char* bad : {"x", "65xh100", "h100", "8x", "8xa b", "-1"}) EXPECT_FALSE(parse_gpus(bad).ok()) << bad;
}

TEST(ClusterDir, MemoryIsMegabytesOrHasAUnit) {
  EXPECT_EQ(*parse_memory_mb("64000"), 64000);
  EXPECT_EQ(*parse_memory_mb("64000M"), 64000);
  EXPECT_EQ(*parse_memory_mb("512g"), 512 * 1024);
  EXPECT_EQ(*parse_memory_mb("2TB"), 2 * 1024 * 1024);
  for (const char* bad : {"", "0", "G", "1.5G", "-1", "9999999999999G"}) EXPECT_FALSE(parse_memory_mb(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep
