#include "container/cdi.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr const char* kSpec = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: "1"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
      hostPath: /dev/other1
    - path: /etc/passwd
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  deviceNodes:
  - path: /dev/nvidiactl
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-ctk
    args: [nvidia-ctk, hook, update-ldcache, --folder, /usr/lib64]
  mounts:
  - hostPath: /usr/lib/libcuda.so.1
    containerPath: /usr/lib/libcuda.so.1
    options: [ro, nosuid, nodev, bind]
)";

TEST(Cdi, EditsOfTheDevicesAskedFor) {
  const auto spec = parse_cdi(kSpec);
  ASSERT_TRUE(spec.ok()) << spec.error().message;
  const std::vector<CdiSpec> specs = {*spec};
  const std::vector<std::string> both = {"0", "1"}, second = {"1"}, none = {"7"};
  const auto edits = find_cdi(specs, "nvidia.com/gpu", both);
  ASSERT_TRUE(edits.ok());
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(edits->devices, (std::vector<Pair>{{"/dev/nvidia0", "/dev/nvidia0"},
                                               {"/dev/nvidiactl", "/dev/nvidiactl"},
                                               {"/dev/other1", "/dev/nvidia1"}}));
  EXPECT_EQ(edits->env, std::vector<std::string>{"NVIDIA_VISIBLE_DEVICES=void"});
  ASSERT_EQ(edits->mounts.size(), 1u);
  EXPECT_TRUE(edits->mounts[0].read_only);
  ASSERT_EQ(edits->hooks.size(), 1u);
  EXPECT_EQ(edits->hooks[0].args.size(), 5u);
  EXPECT_EQ(find_cdi(specs, "nvidia.com/gpu", second)->devices.size(), 2u);
  EXPECT_FALSE(find_cdi(specs, "nvidia.com/gpu", none).ok());
  EXPECT_FALSE(find_cdi(specs, "amd.com/gpu", second).ok());
}

TEST(Cdi, TheFolderReadLastWins) {
  const std::vector<CdiSpec> specs = {
      *parse_cdi(R"({"kind":"a.b/c","devices":[{"name":"0","containerEdits":{"env":["X=1"]}}]})"),
      *parse_cdi(R"({"kind":"a.b/c","devices":[{"name":"0","containerEdits":{"env":["X=2"]}}]})")};
  const std::vector<std::string> names = {"0"};
  EXPECT_EQ(find_cdi(specs, "a.b/c", names)->env, std::vector<std::string>{"X=2"});
}

TEST(Cdi, RefusesWhatIsNone) {
  for (const char* text : {"", "[]", "kind: gpu", "{}", "kind: [a/b"}) EXPECT_FALSE(parse_cdi(text).ok()) << text;
  EXPECT_TRUE(parse_cdi("kind: a/b\ndevices: 3\ncontainerEdits: [x]\n").ok());
}

}  // namespace
}  // namespace lockstep
