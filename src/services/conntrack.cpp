#include "services/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/ip_range.h"

namespace lockstep {

namespace {

constexpr auto kKindMask = static_cast<std::uint16_t>(NLA_TYPE_MASK);

// Attributes of a message, by their kind, as they lie in it.
std::map<std::uint16_t, std::string_view> attributes_of(std::string_view bytes) {
  std::map<std::uint16_t, std::string_view> out;
  while (bytes.size() >= sizeof(nlattr)) {
    nlattr head{};
    ::memcpy(&head, bytes.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > bytes.size())
      break;
    out[head.nla_type & kKindMask] = bytes.substr(sizeof head, head.nla_len - sizeof head);
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), NLA_ALIGN(head.nla_len)));
  }
  return out;
}

std::string_view attribute(const std::map<std::uint16_t, std::string_view>& all, std::uint16_t kind) {
  const auto at = all.find(kind);
  return at == all.end() ? std::string_view() : at->second;
}

std::string with_header(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence, std::string_view attributes) {
  nlmsghdr head{};
  nfgenmsg general{};
  head.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + sizeof general + attributes.size());
  head.nlmsg_type = static_cast<std::uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | type);
  head.nlmsg_flags = flags;
  head.nlmsg_seq = sequence;
  general.nfgen_family = AF_INET;
  general.version = NFNETLINK_V0;
  std::string out(reinterpret_cast<const char*>(&head), sizeof head);
  out.append(reinterpret_cast<const char*>(&general), sizeof general);
  out += attributes;
  return out;
}

void put_attribute(std::string& out, std::uint16_t kind, std::string_view data) {
  nlattr head{};
  head.nla_len = static_cast<std::uint16_t>(sizeof head + data.size());
  head.nla_type = kind;
  out.append(reinterpret_cast<const char*>(&head), sizeof head);
  out += data;
  out.resize(NLA_ALIGN(out.size()));
}

// From whom packets of one direction come, or to whom they go; nothing: they are none of UDP.
enum class Side : unsigned char { kFrom, kTo };
std::optional<LedTo> udp_side(std::string_view tuple, Side side) {
  const auto parts = attributes_of(tuple);
  const auto ip = attributes_of(attribute(parts, CTA_TUPLE_IP));
  const auto proto = attributes_of(attribute(parts, CTA_TUPLE_PROTO));
  const std::string_view number = attribute(proto, CTA_PROTO_NUM),
                         port = attribute(proto, side == Side::kFrom ? CTA_PROTO_SRC_PORT : CTA_PROTO_DST_PORT),
                         address = attribute(ip, side == Side::kFrom ? CTA_IP_V4_SRC : CTA_IP_V4_DST);
  if (number.size() != 1 || static_cast<unsigned char>(number[0]) != IPPROTO_UDP || port.size() != 2 ||
      address.size() != 4)
    return std::nullopt;
  std::uint32_t from = 0;
  std::uint16_t at = 0;
  ::memcpy(&from, address.data(), sizeof from);
  ::memcpy(&at, port.data(), sizeof at);
  return LedTo{ip_text(ntohl(from)), ntohs(at)};
}

}  // namespace

std::string conntrack_dump_request(std::uint32_t sequence) {
  return with_header(IPCTNL_MSG_CT_GET, NLM_F_REQUEST | NLM_F_DUMP, sequence, {});
}

ConntrackPart read_conntrack(std::string_view bytes, const PacketRules::StaleFlows& stale) {
  ConntrackPart out;
  while (bytes.size() >= sizeof(nlmsghdr)) {
    nlmsghdr head{};
    ::memcpy(&head, bytes.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > bytes.size())
      break;
    out.is_end = out.is_end || head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR;
    const std::string_view body = bytes.substr(NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN);
    bytes.remove_prefix(std::min<std::size_t>(bytes.size(), NLMSG_ALIGN(head.nlmsg_len)));
    if (head.nlmsg_type >> 8 != NFNL_SUBSYS_CTNETLINK || body.size() < sizeof(nfgenmsg))
      continue;
    const auto parts = attributes_of(body.substr(NLMSG_ALIGN(sizeof(nfgenmsg))));
    const auto from = udp_side(attribute(parts, CTA_TUPLE_REPLY), Side::kFrom);
    const auto asked = udp_side(attribute(parts, CTA_TUPLE_ORIG), Side::kTo);
    std::uint32_t status = 0;
    if (const auto said = attribute(parts, CTA_STATUS); said.size() == sizeof status)
      ::memcpy(&status, said.data(), sizeof status);
    const auto is_among = [](const std::vector<LedTo>& all, const LedTo& one) {
      return std::binary_search(all.begin(), all.end(), one);
    };
    const bool is_led = (ntohl(status) & IPS_DST_NAT) != 0;
    const bool is_stale = from && asked &&
                          (is_led ? is_among(stale.gone, *from)
                                  : is_among(stale.opened, *asked) || is_among(stale.opened, {"", asked->port}));
    if (!is_stale)
      continue;
    std::string which;
    put_attribute(which, CTA_TUPLE_ORIG | NLA_F_NESTED, attribute(parts, CTA_TUPLE_ORIG));
    if (const auto zone = attribute(parts, CTA_ZONE); !zone.empty())
      put_attribute(which, CTA_ZONE, zone);
    out.gone.push_back(with_header(IPCTNL_MSG_CT_DELETE, NLM_F_REQUEST | NLM_F_ACK, head.nlmsg_seq, which));
  }
  return out;
}

}  // namespace lockstep
