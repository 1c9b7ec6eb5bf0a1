#include "frontends/kube/server/address_claims.h"

#include <gtest/gtest.h>

#include "base/ip_range.h"
#include "model/node.h"

namespace lockstep::kube {
namespace {

TEST(ClusterAddresses, AreKnownByTheirOwners) {
  Tables tables;
  auto node = std::make_shared<Node>();
  node->meta.name = "n1";
  node->id = NodeId{1};
  node->address = "10.70.1.1";
  node->task_range = "10.70.128.0/25";
  node->terms.address = "172.20.0.1";
  tables.nodes[node->id] = node;
  const ClusterAddresses cluster(tables, {"10.70.0.1"});
  const auto owner = [&](std::string_view text) { return cluster.owner_of(parse_ip(text).value_or(0)).words; };
  EXPECT_EQ(owner("10.70.1.1"), "the address of node n1");
  EXPECT_EQ(owner("172.20.0.1"), "the address of node n1");
  EXPECT_EQ(owner("10.70.0.1"), "an address of the controller's machine");
  EXPECT_EQ(owner("10.96.4.1"), "within 10.96.0.0/16, of which Services have their cluster addresses");
  EXPECT_EQ(owner("10.70.128.7"), "within 10.70.128.0/25, of which pods on node n1 have their addresses");
  EXPECT_TRUE(cluster.owner_of(*parse_ip("10.70.128.7")).is_pods);
  for (const char* nowhere : {"127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254"})
    EXPECT_EQ(owner(nowhere), "no address that others reach") << nowhere;
  for (const char* free : {"10.70.1.2", "10.70.128.128", "192.0.2.7"}) EXPECT_EQ(owner(free), "") << free;
}

}  // namespace
}  // namespace lockstep::kube
