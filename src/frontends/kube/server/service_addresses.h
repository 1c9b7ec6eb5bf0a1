// Addresses and ports of Services: each cluster address is an IPAddress object, made in the same commit, so that none
// is ever given out twice; node ports are free among those of all Services that there are. Source:
// kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/kube/server/request.h"
#include "model/node.h"

namespace lockstep::kube {

// What Services have, as their objects change.
class ServiceAddresses final : public FrontReader {
 public:
  static constexpr std::uint32_t kFirstPort = 30'000, kLastPort = 32'767;

  void begin(const Tables& tables) override;
  void change(const Tables& before, const Change& change) override;

  // What a namespace's Services take of every node: their ports and their addresses from outside.
  static constexpr std::size_t kPriceOfSpace = 10'000;
  static std::size_t price_of(const json::value& service);
  std::size_t price_of_space(const std::string& ns) const;

  bool has_port(std::uint32_t port) const { return ports_.contains(port); }
  bool has_address(const std::string& address) const { return addresses_.contains(address); }

 private:
  void count(const Object& object, int sign);

  std::map<std::uint32_t, int> ports_;
  std::map<std::string, int> addresses_;
  std::map<std::string, std::size_t> prices_;  // by namespace
};

// Of the range that cluster addresses are from (kServiceRange) the first: the API server's own.
inline constexpr const char* kApiAddress = "10.96.0.1";

struct GivenAddresses {
  std::vector<CommandBody> commands;
  Reading read;
};

// Fills in what the Service asks for: clusterIP, clusterIPs, node ports. old: null of a new one. seed: anything that
// differs from try to try.
Answered<GivenAddresses> give_addresses(const Request& request, json::object& tree, const json::object* old,
                                        const ServiceAddresses& taken, std::uint64_t seed);

}  // namespace lockstep::kube
