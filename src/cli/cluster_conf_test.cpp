// cluster.conf as text: what is damaged is noticed, whatever the damage, and nothing can be written that is not read
// back.
#include "cli/cluster_conf.h"

#include <gtest/gtest.h>

#include "cli/cluster_dir.h"
#include "io/local/process.h"

namespace lockstep {
namespace {

ClusterConf sample() {
  ClusterConf conf;
  conf.name = "lab-2";
  conf.nodes = 5;
  conf.gpus = "8xh100";
  conf.cpus = 64;
  conf.memory_mb = 1 << 20;
  conf.port = 6820;
  conf.move_after_s = 600;
  conf.unkillable_s = 5;
  conf.namespace_objects = 700;
  conf.listen = "0.0.0.0";
  conf.network = {"ls3fa9", 77};
  return conf;
}

TEST(ClusterConfTest, IsReadBack) {
  const auto read = parse_conf(conf_text(sample()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(conf_text(*read), conf_text(sample()));
  EXPECT_EQ(read->network.bridge, "ls3fa9");
}

TEST(ClusterConfTest, VirtualMachinesAreReadBack) {
  ClusterConf conf = sample();
  conf.nodes = 0;
  EXPECT_FALSE(conf.has_bridge());
  EXPECT_EQ(conf_text(conf).find("vms="), std::string::npos);  // older versions read what does without them
  conf.vms = 3;
  conf.vm_cpus = 2;
  conf.vm_memory_mb = 1024;
  const auto read = parse_conf(conf_text(conf));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->has_bridge());
  EXPECT_EQ(conf_text(*read), conf_text(conf));
  EXPECT_TRUE(node_names(*read).empty());  // none of them runs among this machine's own processes
  EXPECT_EQ(controller_host(*read), "10.77.0.1");
  EXPECT_FALSE(parse_conf("name=a\nnodes=0\nvms=10\nport=1\n").ok());
}

TEST(ClusterConfTest, EveryFlippedBitIsNoticed) {
  const std::string good = conf_text(sample());
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = good;
      text[at] = static_cast<char>(text[at] ^ (1 << bit));
      EXPECT_FALSE(parse_conf(text).ok()) << "byte " << at << " bit " << bit << "\n" << text;
    }
}

TEST(ClusterConfTest, EveryTruncationIsNoticed) {
  const std::string good = conf_text(sample());
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(parse_conf(good.substr(0, size)).ok()) << size;
  EXPECT_FALSE(parse_conf(std::string(100, '\0')).ok());
}

TEST(ClusterConfTest, ThoseOfOlderVersionsAndOfAnEditorAreTaken) {
  const std::string old =
      "# Written by lockstep up.\nname=a b\nnodes=2\ngpus=\ncpus=0\nmemory_mb=0\nport=6820\nbridge=ls1\nnetwork=66\n";
  const auto read = parse_conf(old);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->name, "a b");
  EXPECT_EQ(read->network.second, 66u);
  EXPECT_TRUE(parse_conf("name=a\nnodes=0\nport=1\n").ok());
  EXPECT_NE(parse_conf("name=a\nport=1\n").error().message.find("nodes="), std::string::npos);
  EXPECT_FALSE(parse_conf("name=a\nnodes=2001\nport=1\n").ok());
  EXPECT_FALSE(parse_conf("name=a\nnodes=1\nport=65536\n").ok());
}

TEST(ClusterConfTest, WordsThatAreWrittenThere) {
  for (const char* good : {"lockstep", "a", "lab_2.x-y", "7"})
    EXPECT_TRUE(check_plain_word("--name", good).ok()) << good;
  for (const std::string& bad : {std::string(), std::string("x\ny"), std::string("a b"), std::string("a=b"),
                                 std::string("#a"), std::string("-a"), std::string(65, 'a'), std::string("a\0b", 3),
                                 std::string("\x1b[2J"), std::string("caf\xc3\xa9")}) {
    const auto said = check_plain_word("--name", bad);
    ASSERT_FALSE(said.ok()) << bad;
    EXPECT_NE(said.error().message.find("letters, digits"), std::string::npos);
  }
  EXPECT_TRUE(parse_gpus("8xh100").ok());
  for (const char* bad : {"8x", "8xh 100", "8xh\nname=evil", "8x=", "65xh100", "x"})
    EXPECT_FALSE(parse_gpus(bad).ok()) << bad;
}

}  // namespace
}  // namespace lockstep
