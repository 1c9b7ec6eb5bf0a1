#include "services/conntrack.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include "base/ip_range.h"

namespace lockstep {
namespace {

std::string number(std::uint32_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = bytes; i-- > 0;) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string attribute_with(std::uint16_t kind, const std::string& data) {
  const nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + data.size()), kind};
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out += data;
  out.resize(NLA_ALIGN(out.size()));
  return out;
}

std::string tuple(std::uint16_t kind, const LedTo& from, const LedTo& to, std::uint8_t protocol) {
  return attribute_with(
      kind | NLA_F_NESTED,
      attribute_with(CTA_TUPLE_IP | NLA_F_NESTED, attribute_with(CTA_IP_V4_SRC, number(*parse_ip(from.address), 4)) +
                                                      attribute_with(CTA_IP_V4_DST, number(*parse_ip(to.address), 4))) +
          attribute_with(CTA_TUPLE_PROTO | NLA_F_NESTED, attribute_with(CTA_PROTO_NUM, number(protocol, 1)) +
                                                             attribute_with(CTA_PROTO_SRC_PORT, number(from.port, 2)) +
                                                             attribute_with(CTA_PROTO_DST_PORT, number(to.port, 2))));
}

// A flow from a client to `asked`, which `answers` answers.
std::string flow(const LedTo& asked, const LedTo& answers, std::uint32_t status, std::uint8_t protocol = IPPROTO_UDP) {
  const LedTo client{"10.70.128.9", 4000};
  const std::string parts = tuple(CTA_TUPLE_ORIG, client, asked, protocol) +
                            tuple(CTA_TUPLE_REPLY, answers, client, protocol) +
                            attribute_with(CTA_STATUS, number(status, 4));
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + 4 + parts.size());
  head.nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW;
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + std::string("\x02\0\0\0", 4) + parts;
}

TEST(Conntrack, StaleFlowsAreFoundAmongOthers) {
  const PacketRules::StaleFlows stale{{{"10.70.128.3", 53}}, {{"", 30'053}, {"10.96.3.1", 53}}};
  const LedTo service{"10.96.3.1", 53}, old{"10.70.128.3", 53}, other{"10.70.128.4", 53}, port{"10.70.1.1", 30'053};
  EXPECT_EQ(read_conntrack(flow(service, old, IPS_DST_NAT), stale).gone.size(), 1u);
  EXPECT_EQ(read_conntrack(flow(service, other, IPS_DST_NAT), stale).gone.size(), 0u) << "still there";
  EXPECT_EQ(read_conntrack(flow(old, old, 0), stale).gone.size(), 0u) << "not through a service";
  EXPECT_EQ(read_conntrack(flow(service, old, IPS_DST_NAT, IPPROTO_TCP), stale).gone.size(), 0u);
  EXPECT_EQ(read_conntrack(flow(service, service, 0), stale).gone.size(), 1u) << "led nowhere so far";
  EXPECT_EQ(read_conntrack(flow(port, port, 0), stale).gone.size(), 1u);
  const std::string both = flow(service, old, IPS_DST_NAT) + flow(port, port, 0);
  EXPECT_EQ(read_conntrack(both, stale).gone.size(), 2u);
  for (std::size_t i = 0; i < both.size(); ++i) (void)read_conntrack(both.substr(0, i), stale);
}

}  // namespace
}  // namespace lockstep
