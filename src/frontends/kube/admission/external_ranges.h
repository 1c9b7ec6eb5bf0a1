// Which addresses from outside of the cluster Services may claim: those that administrators list, as the ConfigMap
// kube-system/external-addresses, whose key `ranges` holds addresses and ranges ("192.0.2.0/24 198.51.100.7").
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_range.h"
#include "model/tables.h"

namespace lockstep::kube {

inline constexpr const char *kExternalSpace = "kube-system", *kExternalName = "external-addresses";

class ExternalRanges {
 public:
  // What is neither an address nor a range is left out.
  static ExternalRanges parse(std::string_view text);
  // Of the ConfigMap; without one, none.
  static ExternalRanges of(const Object* map);
  static ExternalRanges of(const Tables& tables);
  bool contains(std::uint32_t address) const;

 private:
  std::vector<IpRange> ranges_;
};

// A Service's addresses from outside: externalIPs and those of its balancer. IPv4 alone: nodes lead no others.
std::vector<std::string> external_addresses(const boost::json::value& service);

}  // namespace lockstep::kube
