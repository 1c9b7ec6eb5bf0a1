#include "shim/sandbox_room.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SandboxRooms, our_group_is_that_of_memory_or_of_version_2) {
  EXPECT_EQ(group_in("9:cpu,cpuacct:/\n8:memory:/a/12-1/task-0.0.1\n0::/other\n"), "/a/12-1/task-0.0.1");
  EXPECT_EQ(group_in("0::/x/y\n"), "/x/y");
  EXPECT_EQ(group_in("8:memory:/\n0::/x\n"), "");
  EXPECT_EQ(group_in("0::/\n"), "");
  EXPECT_EQ(group_in("garbage\n::\n"), "");
  EXPECT_EQ(group_in("8:memory:/with:colon\n"), "/with:colon");
}

SandboxContainer asking(ContainerKind kind, std::uint32_t cpu_weight, std::uint64_t memory_bytes) {
  SandboxContainer one;
  one.kind = kind;
  one.cpu_weight = cpu_weight;
  one.memory_bytes = memory_bytes;
  return one;
}

TEST(SandboxRooms, a_pod_weighs_what_its_containers_ask_for) {
  using enum ContainerKind;
  Sandbox sandbox;
  sandbox.containers = {asking(kMain, 0, 0)};
  EXPECT_EQ(cpu_shares_of(sandbox), 2u);
  sandbox.containers = {asking(kSidecar, 250, 0), asking(kInit, 250, 0), asking(kMain, 500, 0), asking(kMain, 250, 0)};
  EXPECT_EQ(cpu_shares_of(sandbox), 1024u);
  sandbox.containers[1].cpu_weight = 2000;
  EXPECT_EQ(cpu_shares_of(sandbox), 2304u) << "an init container beside the sidecar that runs by then";
  EXPECT_EQ(cpu_weight_of_shares(2), 1u);
  EXPECT_EQ(cpu_weight_of_shares(1024), 39u);
  EXPECT_EQ(cpu_weight_of_shares(262'144), 10'000u);
}

TEST(SandboxRooms, a_pod_has_a_bound_of_memory_where_each_of_its_containers_has) {
  using enum ContainerKind;
  Sandbox sandbox;
  sandbox.containers = {asking(kInit, 0, 700), asking(kMain, 0, 100), asking(kMain, 0, 200)};
  EXPECT_EQ(memory_limit_of(sandbox), 700u);
  sandbox.containers[0].memory_bytes = 10;
  EXPECT_EQ(memory_limit_of(sandbox), 300u);
  sandbox.containers[0].memory_bytes = 0;
  EXPECT_EQ(memory_limit_of(sandbox), 0u);
}

TEST(SandboxRooms, processors_may_have_a_hierarchy_of_their_own) {
  EXPECT_EQ(group_in("9:cpu,cpuacct:/c/12-1/t\n8:memory:/m\n0::/other\n", "cpu"), "/c/12-1/t");
  EXPECT_EQ(group_in("8:cpuset:/s\n0::/x/y\n", "cpu"), "/x/y");
}

TEST(SandboxRooms, names_are_those_of_the_sandbox) {
  Sandbox sandbox;
  sandbox.network = TaskNetwork::kOwn;
  sandbox.domain = "web.lab.svc.cluster.local";
  sandbox.aliases = {{"1.2.3.4", {"a", "b"}}};
  const std::string text = hosts_text(sandbox, "one", "10.0.0.9", "1.1.1.1 node\n");
  EXPECT_TRUE(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")) << text;
  EXPECT_TRUE(
      text.ends_with("10.0.0.9\tone.web.lab.svc.cluster.local\tone\n\n# Entries added by HostAliases.\n"
                     "1.2.3.4\ta\tb\n"))
      << text;
  EXPECT_EQ(text.find("1.1.1.1"), text.npos);
  sandbox = {};
  EXPECT_EQ(hosts_text(sandbox, "one", "", "1.1.1.1 node"),
            "# Kubernetes-managed hosts file (host network).\n1.1.1.1 node\n");
}

TEST(SandboxRooms, names_are_looked_up_as_asked) {
  EXPECT_EQ(lookup_text({}), "");
  EXPECT_EQ(lookup_text({{"10.0.0.10", "10.0.0.11"}, {"a.local", "local"}, {"ndots:5"}}),
            "search a.local local\nnameserver 10.0.0.10\nnameserver 10.0.0.11\noptions ndots:5\n");
}

}  // namespace
}  // namespace lockstep
