// ServiceView: the services of the cluster as the lines of the controller tell them, on one node.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/service_table.h"

namespace lockstep {

using ServiceKey = std::pair<std::string, std::string>;  // space, name

class ServiceView {
 public:
  // A line that is not understood is left out: a newer controller may tell more.
  void hear(ServiceLine line);

  // Everything was told once. Until then, and while it is told anew, what stands here is the older whole.
  bool is_whole() const { return whole_; }
  // Where the next answer is to go on; none: from the beginning.
  const std::optional<ServiceMark>& mark() const { return mark_; }

  const std::string& zone() const { return now_.head.zone; }
  const std::string& range() const { return now_.head.range; }
  const std::map<ServiceKey, ServiceFact>& services() const { return now_.services; }
  const std::map<std::string, NodeFact>& nodes() const { return now_.nodes; }
  const ServiceFact* find(const ServiceKey& key) const;
  bool has_space(const std::string& space) const { return now_.spaces.contains(space); }
  // What is behind it, in the order of their names.
  std::vector<const ServiceEnds*> ends_of(const ServiceKey& service) const;
  // Names by address (PTR): services' own, and the ends of headless ones.
  std::vector<ServiceKey> at_address(const std::string& address) const;

  // What has changed since it was asked the last time.
  struct Changes {
    bool all = false, nodes = false;
    std::set<ServiceKey> services;
  };
  Changes take_changes();

 private:
  struct Table {
    ServiceHead head;
    std::map<ServiceKey, ServiceFact> services;
    std::map<ServiceKey, ServiceEnds> ends;
    std::map<ServiceKey, std::set<std::string>> ends_of;  // of a service: names in its space
    std::map<std::string, NodeFact> nodes;
    std::map<std::string, std::size_t> spaces;  // how many services
    std::map<std::string, std::map<ServiceKey, std::size_t>> addresses;
  };
  void put(Table& table, ServiceFact fact);
  void put(Table& table, ServiceEnds ends);
  void put(Table& table, NodeFact node);
  void remove(Table& table, const ServiceGone& gone);
  static void drop_service(Table& table, const ServiceKey& key);
  static void drop_ends(Table& table, const ServiceKey& key);
  void changed(const Table& table, const ServiceKey& key);

  Table now_;
  std::optional<Table> next_;  // is being told anew
  std::optional<ServiceMark> mark_;
  bool whole_ = false;
  Changes changes_;
};

}  // namespace lockstep
