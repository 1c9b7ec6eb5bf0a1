#include "container/image_config.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

TEST(ImageConfig, OfAnOciImage) {
  const auto config = parse_image_config(
      R"({"architecture":"amd64","config":{"Env":["PATH=/bin","A=b c","nonsense","=x"],"Entrypoint":["/e","x"],)"
      R"("Cmd":["sh"],"WorkingDir":"/w","Labels":{"a":"b"}},"rootfs":{"type":"layers"}})");
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(*config, (ImageConfig{{"PATH=/bin", "A=b c"}, {"/e", "x"}, {"sh"}, "/w"}));
  EXPECT_EQ(*parse_image_config(R"({"config":{"Entrypoint":null,"WorkingDir":"rel","Env":"x"}})"), ImageConfig{});
  EXPECT_EQ(*parse_image_config("{}"), ImageConfig{});
  for (const char* text : {"", "[]", "{", "\x01", "3"}) EXPECT_FALSE(parse_image_config(text).ok()) << text;
}

TEST(ImageConfig, OfEnrootAndBack) {
  const ImageConfig config{{"PATH=/bin", "A=b c"}, {"/entry point", "it's"}, {"run"}, "/w d"};
  const std::string rc = enroot_rc(config);
  const ImageConfig read = parse_enroot_config(enroot_environment(config), rc);
  EXPECT_EQ(read.env, config.env);
  EXPECT_EQ(read.work_dir, "/w d");
  EXPECT_EQ(read.entrypoint, (Words{"/bin/sh", "/etc/rc"}));
  EXPECT_NE(rc.find("exec '/entry point' 'it'\\''s' \"$@\""), rc.npos) << rc;
}

TEST(ImageConfig, FilesOfOtherSquashfsImages) {
  const ImageConfig config =
      parse_enroot_config("# a comment=1\nA=\"quoted words\"\nnothing\nB=\n", "cd \"/work\" || exit 1\n");
  EXPECT_EQ(config.env, (Words{"A=quoted words", "B="}));
  EXPECT_EQ(config.work_dir, "/work");
  EXPECT_EQ(parse_enroot_config("", ""), ImageConfig{});
  EXPECT_EQ(parse_enroot_config("", "cd relative\ncd \n").work_dir, "/");
}

TEST(ImageConfig, Bundle) {
  const auto bundle = parse_bundle(
      R"({"ociVersion":"1.0.2","root":{"path":"rootfs","readonly":true},"process":{"args":["sh"],"env":["A=b"],"cwd":"/x"},)"
      R"("mounts":[{"destination":"/proc","type":"proc","source":"proc"},)"
      R"({"destination":"/data","type":"bind","source":"/srv/data","options":["rbind","ro"]},)"
      R"({"destination":"/rel","type":"bind","source":"rel"}]})");
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  EXPECT_EQ(bundle->config, (ImageConfig{{"A=b"}, {}, {"sh"}, "/x"}));
  EXPECT_EQ(bundle->root, "rootfs");
  EXPECT_TRUE(bundle->read_only);
  EXPECT_EQ(bundle->mounts, (std::vector<Mount>{{"/srv/data", "/data", true, {"rbind"}}}));
  EXPECT_FALSE(parse_bundle("{}").ok());
  EXPECT_FALSE(parse_bundle(R"({"root":{"path":""}})").ok());
}

TEST(ImageConfig, TheSignalThatEndsItIsReadAsItIsWritten) {
  const auto parsed = parse_image_config(R"({"config":{"StopSignal":"SIGQUIT"}})");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->stop_signal, 3);
  for (const auto& [word, number] : std::vector<std::pair<const char*, int>>{{"SIGUSR1", 10},
                                                                             {"HUP", 1},
                                                                             {"15", 15},
                                                                             {"SIGRTMIN+3", 37},
                                                                             {"RTMAX-1", 63},
                                                                             {"RTMIN", 34},
                                                                             {"SIGNONE", 0},
                                                                             {"65", 0},
                                                                             {"SIGRTMIN+31", 0},
                                                                             {"SIGRTMIN-1", 0},
                                                                             {"", 0},
                                                                             {"SIG", 0}})
    EXPECT_EQ(signal_named(word), number) << word;
}

}  // namespace
}  // namespace lockstep
