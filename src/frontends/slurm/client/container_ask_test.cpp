#include "frontends/slurm/client/container_ask.h"

#include <gtest/gtest.h>

#include <map>

namespace lockstep::slurm {
namespace {

struct Asked {
  Container container;
  std::vector<std::string> notes;
  std::string why;  // it was refused
};

Asked ask(std::vector<std::string> words, std::map<std::string, std::string> variables = {}) {
  OptionSet options(SlurmCommand::kSrun);
  words.insert(words.begin(), "srun");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Asked asked;
  if (auto read = options.read_command_line(static_cast<int>(argv.size()), argv.data()); !read) {
    asked.why = read.error().message;
    return asked;
  }
  const auto read = options.read_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  auto container = read.ok() ? container_of(options, "/work/dir", asked.notes) : Result<Container>(read.error());
  if (container)
    asked.container = std::move(*container);
  else
    asked.why = container.error().message;
  return asked;
}

TEST(ContainerAsk, WhatPyxisUnderstands) {
  const Container c =
      ask({"--container-image=nvcr.io#nvidia/pytorch:24.01-py3", "--container-mounts=/data:/mnt:ro+nosuid,./x:/y,/z",
           "--container-workdir=/w", "--container-name=box:exec", "--container-env=A,B", "--container-save=out.sqsh",
           "--container-mount-home", "--container-remap-root", "--container-entrypoint", "--container-readonly",
           "true"})
          .container;
  Container want;
  want.image = "nvcr.io#nvidia/pytorch:24.01-py3";
  want.mounts = {{"/data", "/mnt", true, {"nosuid"}}, {"/work/dir/./x", "/y", false, {}}, {"/z", "/z", false, {}}};
  want.work_dir = "/w";
  want.name = "box";
  want.reuse = Container::Reuse::kEnter;
  want.keep_env = {"A", "B"};
  want.save = "/work/dir/out.sqsh";
  want.mount_home = want.remap_root = want.entrypoint = true;
  EXPECT_EQ(c, want);
}

TEST(ContainerAsk, Defaults) {
  const Container c = ask({"--container-image=./a.sqsh", "true"}).container;
  Container want;
  want.image = "/work/dir/./a.sqsh";
  want.writable = true;
  EXPECT_EQ(c, want);
  EXPECT_EQ(ask({"true"}).container, Container{});
  EXPECT_EQ(ask({"--container-image=oci:./l:t", "true"}).container.image, "oci:/work/dir/./l:t");
}

TEST(ContainerAsk, TheLastOfAPairCounts) {
  EXPECT_FALSE(
      ask({"--container-image=a", "--container-remap-root", "--no-container-remap-root", "x"}).container.remap_root);
  EXPECT_TRUE(ask({"--container-image=a", "--container-readonly", "--container-writable", "x"}).container.writable);
}

TEST(ContainerAsk, Variables) {
  const std::map<std::string, std::string> variables = {{"PYXIS_CONTAINER_IMAGE", "a"},
                                                        {"PYXIS_CONTAINER_MOUNTS", "/m"},
                                                        {"PYXIS_CONTAINER_WRITABLE", "no"},
                                                        {"PYXIS_CONTAINER_REMAP_ROOT", "1"}};
  const Container c = ask({"--container-image=b", "true"}, variables).container;
  EXPECT_EQ(c.image, "b");
  EXPECT_EQ(c.mounts.size(), 1u);
  EXPECT_TRUE(c.remap_root && !c.writable);
  EXPECT_TRUE(ask({"--container-image=b", "x"}, {{"PYXIS_CONTAINER_READONLY", "false"}}).container.writable);
  EXPECT_FALSE(ask({"--no-container-remap-root", "true"}, variables).container.remap_root);
  EXPECT_EQ(ask({"true"}, {{"PYXIS_CONTAINER_WRITABLE", "perhaps"}}).why,
            "Invalid value \"perhaps\" for environment variable PYXIS_CONTAINER_WRITABLE");
  EXPECT_EQ(ask({"true"}, {{"SLURM_CONTAINER", "bundle"}}).container.bundle, "/work/dir/bundle");
}

TEST(ContainerAsk, WithoutAContainerItIsSaidOnce) {
  const Asked asked = ask({"--container-mounts=/a:/b", "true"});
  EXPECT_EQ(asked.container, Container{});
  ASSERT_EQ(asked.notes.size(), 1u);
  EXPECT_EQ(asked.notes[0],
            "ignoring --container-mounts because neither --container-image nor --container-name is set");
}

TEST(ContainerAsk, Refusals) {
  const auto why = [](const std::string& option) { return ask({"--container-image=a", option, "true"}).why; };
  EXPECT_EQ(why("--container-mounts=data:/x"),
            "--container-mounts: \"data:/x\": the source must be a path that begins with \"/\" or \".\", or tmpfs, or "
            "umount");
  EXPECT_NE(why("--container-mounts=/a:/b:rw+what").find("\"what\" is no flag of a mount"), std::string::npos);
  for (const char* option :
       {"--container-mounts=:/x", "--container-mounts=/a:", "--container-mounts=/a,,/b", "--container-mounts=/a:b",
        "--container-name=", "--container-name=../x", "--container-name=a/b", "--container-name=a:now",
        "--container-name=.x", "--container-workdir=rel", "--container-save=dir/", "--container-env=A,,B",
        "--container-env=A=1", "--container=/bundle"})
    EXPECT_NE(why(option), "") << option;
  std::string long_one = "--container-mounts=";
  for (int i = 0; i < 5000; ++i) long_one += "/a-rather-long-path-of-a-mount,";
  EXPECT_NE(why(long_one + "/a").find("too long"), std::string::npos);
}

TEST(ContainerAsk, WhatStepsInherit) {
  OptionSet options(SlurmCommand::kSbatch);
  for (const auto& [name, text] :
       {std::pair("container-image", "a"), {"container-save", "/s"}, {"container-readonly", ""}})
    ASSERT_TRUE(options.set(name, {text}).ok());
  Variables variables;
  put_container_variables(options, variables);
  EXPECT_EQ(variables, (Variables{{"PYXIS_CONTAINER_IMAGE", "a"}, {"PYXIS_CONTAINER_WRITABLE", "0"}}));
}

}  // namespace
}  // namespace lockstep::slurm
