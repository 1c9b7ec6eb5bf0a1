// PacketRules: what a node's packet filter is to do so that services' addresses lead to what is behind them, as a
// value; and the text for `nft -f -` that makes it, all of it or what has changed. Reads nothing and runs nothing.
//
// One table. A packet's first address and port lead by one look into a map to the one end that is behind them, or to
// the chain of the port, which chooses among several by chance; what leads nowhere is refused. An address from outside
// leads to a chain of its own, which asks the services that claim it, the oldest first. So what a service takes of the
// filter grows with its ports, its ends and its addresses, not with their product. Source: nft(8).
//
// Of one space services take so much at most (kElementsOfSpace), the oldest first: what comes behind leads nowhere.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ip_range.h"
#include "services/service_view.h"

namespace lockstep {

struct RulesPlace {
  std::string table;       // "lockstep-3fa9": of the cluster, in the node's network namespace
  std::string node;        // its name
  std::string range;       // of its tasks' addresses
  std::string controller;  // an IPv4 address, as this node reaches it; "" = not known
  std::uint16_t controller_port = 0;
};

// An address and port to which a service's packets are led.
struct LedTo {
  std::string address;
  std::uint16_t port = 0;
  auto operator<=>(const LedTo&) const = default;
};

class PacketRules {
 public:
  explicit PacketRules(RulesPlace place) : place_(std::move(place)) {}

  static constexpr std::size_t kElementsOfService = 16 << 10, kElementsOfSpace = 128 << 10;

  // Brings the rules up to the view. Only what the changes name is looked at.
  void update(const ServiceView& view, const ServiceView::Changes& changes);

  // Services that lead nowhere whatever the view says of them: the filter does not take them, or it is not known yet
  // whether it does.
  void leave_out(const ServiceView& view, std::set<ServiceKey> services);
  // Ports of the node that somebody else has there: (protocol, port).
  using NodePort = std::pair<std::string, std::uint16_t>;
  void set_taken(const ServiceView& view, std::set<NodePort> ports);
  // That services have, taken or not.
  const std::map<NodePort, std::size_t>& node_ports() const { return node_ports_; }
  // Those whose rules have changed since settle() was called, and those that are too much for their space.
  std::set<ServiceKey> unsettled() const { return touched_; }
  const std::set<ServiceKey>& beyond_bounds() const { return beyond_; }

  // Text that makes what is wanted out of nothing, whatever is there under the table's name.
  std::string whole() const;
  // Text that makes what is wanted out of what was wanted when settle() was called; "" = nothing has changed.
  std::string since_settled() const;
  void settle();

  // UDP's flows that are to be forgotten since settle() was called, sorted: those to what packets are not led to any
  // more, and those that were led nowhere to what leads somewhere now (address "" = any of the node's).
  struct StaleFlows {
    std::vector<LedTo> gone, opened;
  };
  StaleFlows stale_udp() const;

  // The address at which this node answers names itself; "" = something is behind the service that does, or there is
  // none.
  const std::string& names_address() const { return names_address_; }
  struct HealthPort {
    std::string space, name;
    std::size_t local_ends = 0;
    friend bool operator==(const HealthPort&, const HealthPort&) = default;
  };
  const std::map<std::uint16_t, HealthPort>& health_ports() const { return health_; }

  // Text that removes everything of the table.
  static std::string removal(const std::string& table);

 private:
  // A claim of one service on a place in a map. Of several the one with the lowest order counts. Its verdict is a word
  // of the filter's; "=10.70.128.3 . 8080" is an end, which stands in the map of ends beside.
  struct Claim {
    std::uint64_t order = 0;
    std::string verdict;
    auto operator<=>(const Claim&) const = default;
  };
  using Place = std::pair<std::string, std::string>;  // map, key in it
  struct OfService {
    std::map<std::string, std::string> chains;  // name: rules
    std::map<std::string, std::string> sets;    // name: declaration
    std::map<Place, std::string> claims;        // verdicts
    std::set<std::string> hairpins;             // addresses of this node that may be led to themselves
    std::set<LedTo> udp, udp_doors;             // led to; and by what address and port
    std::set<std::string> doors, closed_doors;  // addresses from outside; of those with a port that leads nowhere
    std::set<NodePort> node_ports;
    std::uint64_t order = 0;
    bool has_external = false;
  };
  struct Priced {
    ServiceKey key;
    std::size_t elements = 0;
  };
  // Texts by name, and what those that were touched since the last settling were then.
  struct Kept {
    std::map<std::string, std::string> now;
    std::map<std::string, std::optional<std::string>> before;
    void put(const std::string& name, std::optional<std::string> text);
  };
  struct Ends {
    std::vector<LedTo> all, local;
  };

  void drop(const ServiceKey& key);
  void look(const ServiceView& view, const ServiceKey& key);
  void look_at_nodes(const ServiceView& view);
  using EndsByPort = std::map<std::pair<std::string, std::string>, Ends>;  // by protocol and name
  EndsByPort ends_of(const ServiceView& view, const ServiceFact& fact) const;
  struct Outside;
  void serve(OfService& of, Outside& outside, const ServiceFact& fact, const ServicePort& port, const Ends& ends) const;
  void open_to_outside(OfService& of, const ServiceFact& fact, const Outside& outside) const;
  bool may_be_external(const std::string& address) const;
  // Notes what the services take, and which of their spaces take too much. Answers those of which that has changed.
  std::set<ServiceKey> price(const ServiceView& view, const std::set<ServiceKey>& keys);
  void settle_claim(const Place& place);
  void settle_door(const std::string& address);
  std::string frame() const;

  RulesPlace place_;
  std::optional<IpRange> services_range_;
  std::map<std::uint32_t, std::uint32_t> ranges_;  // of tasks' addresses: first, last
  std::map<std::string, std::map<std::uint64_t, Priced>> spaces_;
  std::map<ServiceKey, std::pair<std::string, std::uint64_t>> priced_;  // their places there
  std::set<ServiceKey> left_out_, beyond_, touched_;
  std::map<std::string, std::map<std::uint64_t, bool>> doors_;  // by address, order: whether a port leads nowhere
  std::map<NodePort, std::size_t> node_ports_;
  std::set<NodePort> taken_;
  std::string range_, names_address_;
  ServiceKey names_service_;
  Kept chains_, sets_;
  std::map<std::string, Kept> maps_;  // of a map or set: place: verdict, "" in a set
  std::map<ServiceKey, OfService> services_;
  std::map<Place, std::map<ServiceKey, Claim>> claims_;
  std::map<std::string, std::size_t> hairpins_;
  std::map<LedTo, std::size_t> udp_, udp_doors_;
  std::set<LedTo> settled_udp_, settled_udp_doors_;
  std::map<std::uint16_t, HealthPort> health_;
  std::string settled_frame_;
};

}  // namespace lockstep
