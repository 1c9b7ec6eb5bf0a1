#include "model/accounting.h"

namespace lockstep {

// Names of accounts and users hold no "/": the core refuses them.
std::string association_name(const std::string& account, const std::string& user, const std::string& partition) {
  std::string name = account + "/" + user;
  if (!partition.empty())
    name += "/" + partition;
  return name;
}

std::string usage_name(const Usage& usage) {
  return usage.account + "/" + std::to_string(usage.user.value) + "/" + usage.partition + "/" + usage.qos;
}

}  // namespace lockstep
