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
