// Whose addresses Services and Endpoints may name: no address that leads to the cluster's own machines, whatever
// anybody asks, and of others' only those that administrators list. Source: CVE-2020-8554, CVE-2021-25740.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"

namespace lockstep::kube {

// Addresses that are the cluster's own.
class ClusterAddresses {
 public:
  // own: of the controller's machine.
  ClusterAddresses(const Tables& tables, const std::vector<std::string>& own);
  // What the address belongs to; words "" = nothing of the cluster's.
  struct Owner {
    std::string words;  // "the address of node n1"
    bool is_pods = false;
  };
  Owner owner_of(std::uint32_t address) const;

 private:
  std::map<std::uint32_t, std::string> addresses_;
  std::map<std::uint32_t, std::pair<std::uint32_t, std::string>> ranges_;  // by first address: last, words
};

// A Status: the object names an address, which it did not name before, that its writer may not give it.
std::optional<Status> check_address_claims(Request& request, const json::object& tree, const json::object* old,
                                           const RoleBook& roles, const std::vector<std::string>& own);

}  // namespace lockstep::kube
