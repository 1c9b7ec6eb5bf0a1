#include "services/packet_rules.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kElementsAtOnce = 500;  // in one line of text
constexpr std::size_t kStickyMax = 256;       // beyond so many ends of a service a client's is computed, not remembered
constexpr std::size_t kStickyElements = 4;    // a set, a chain and what leads there, for each end
constexpr const char* kMark = "0x4000";       // of packets whose sender is to be this node
constexpr const char *kCluster = "cluster", *kExternal = "external", *kPorts = "ports", *kClosed = "closed",
                     *kClosedPorts = "closed-ports", *kHairpin = "hairpin", *kNodes = "nodes", *kRanges = "ranges",
                     *kOneEnd = "one-end", *kOneEndPorts = "one-end-ports";
constexpr const char* kTransports = "meta l4proto { tcp, udp, sctp }";
constexpr const char *kRefuse = "goto refuse", *kDrop = "drop";

// Facts come from users: what becomes a word of the filter's language is an address or one of these words.
bool is_protocol(const std::string& text) { return text == "tcp" || text == "udp" || text == "sctp"; }

std::optional<std::string> address_word(const std::string& text) {
  const auto parsed = parse_ip(text);
  return parsed ? std::optional(ip_text(*parsed)) : std::nullopt;
}

constexpr bool is_link_local(std::uint32_t address) { return address >> 16 == 0xA9FE; }

// What is behind a service is another machine or a task.
bool may_be_end(std::uint32_t address) {
  return !is_loopback(address) && is_unicast(address) && !is_link_local(address);
}

std::string at(const std::string& address, const std::string& protocol, std::uint16_t port) {
  return format("{} . {} . {}", address, protocol, port);
}

void add_line(std::string& rules, const std::string& line) { rules += "    " + line + "\n"; }

struct MapForm {
  const char *name, *type, *of;  // of "": a set
};
constexpr const char *kVerdict = " : verdict", *kEnd = " : ipv4_addr . inet_service";
constexpr MapForm kMaps[] = {{kCluster, "ipv4_addr . inet_proto . inet_service", kVerdict},
                             {kOneEnd, "ipv4_addr . inet_proto . inet_service", kEnd},
                             {kExternal, "ipv4_addr", kVerdict},
                             {kClosed, "ipv4_addr", kVerdict},
                             {kPorts, "inet_proto . inet_service", kVerdict},
                             {kOneEndPorts, "inet_proto . inet_service", kEnd},
                             {kClosedPorts, "inet_proto . inet_service", kVerdict},
                             {kHairpin, "ipv4_addr . ipv4_addr", ""},
                             {kNodes, "ipv4_addr", ""},
                             {kRanges, "ipv4_addr; flags interval", ""}};

// Where ends stand that are the only one behind a place of the map. nullptr: it has none such.
const char* ends_beside(const std::string& map) {
  return map == kCluster ? kOneEnd : map == kPorts ? kOneEndPorts : nullptr;
}

std::string end_text(const LedTo& end) { return format("{} . {}", end.address, end.port); }

// "{ a : v, b : v }" in pieces.
void put_elements(std::string& out, const std::string& verb, const std::string& table, const std::string& map,
                  const std::vector<std::pair<std::string, std::string>>& elements, bool with_verdicts) {
  for (std::size_t i = 0; i < elements.size(); i += kElementsAtOnce) {
    out += format("{} element ip {} {} {{ ", verb, table, map);
    for (std::size_t k = i; k < std::min(i + kElementsAtOnce, elements.size()); ++k) {
      if (k > i)
        out += ", ";
      out += elements[k].first;
      if (with_verdicts && !elements[k].second.empty())
        out += " : " + elements[k].second;
    }
    out += " }\n";
  }
}

// The rules that choose among ends of a protocol, without regard to who asks.
std::string by_chance(const std::string& protocol, const std::string& how, const std::vector<LedTo>& ends) {
  std::string rules;
  if (ends.size() == 1) {
    add_line(rules, format("meta l4proto {} dnat to {}:{}", protocol, ends[0].address, ends[0].port));
    return rules;
  }
  std::string choice;
  for (std::size_t i = 0; i < ends.size(); ++i) choice += format("{}{} : {}", i ? ", " : "", i, end_text(ends[i]));
  add_line(rules, format("meta l4proto {} dnat ip to {} mod {} map {{ {} }}", protocol, how, ends.size(), choice));
  return rules;
}

// Fills `chain`, which leads to one of the ends, in the way the service asks for.
void choose(std::map<std::string, std::string>& chains, std::map<std::string, std::string>& sets,
            const ServiceFact& fact, const std::string& chain, const std::string& protocol,
            const std::vector<LedTo>& ends) {
  std::string& rules = chains[chain];
  if (ends.empty())
    return;
  if (fact.affinity_s == 0 || ends.size() == 1) {
    rules = by_chance(protocol, "numgen random", ends);
    return;
  }
  if (ends.size() * fact.ports.size() > kStickyMax) {
    rules = by_chance(protocol, "jhash ip saddr", ends);
    return;
  }
  std::string choice;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string one = format("{}-{}-{}", chain, ends[i].address, ends[i].port);
    sets[one] = format("type ipv4_addr; flags dynamic,timeout; timeout {}s; size 65535", fact.affinity_s);
    add_line(rules, format("ip saddr @{0} goto {0}", one));
    choice += format("{}{} : goto {}", i ? ", " : "", i, one);
    std::string& its = chains[one];
    add_line(its, format("update @{} {{ ip saddr }}", one));
    add_line(its, format("meta l4proto {} dnat to {}:{}", protocol, ends[i].address, ends[i].port));
  }
  add_line(rules, format("numgen random mod {} vmap {{ {} }}", ends.size(), choice));
}

}  // namespace

void PacketRules::Kept::put(const std::string& name, std::optional<std::string> text) {
  const auto known = now.find(name);
  if (!before.contains(name))
    before[name] = known == now.end() ? std::nullopt : std::optional(known->second);
  if (text)
    now[name] = std::move(*text);
  else if (known != now.end())
    now.erase(known);
}

// --- what is wanted ---

void PacketRules::update(const ServiceView& view, const ServiceView::Changes& changes) {
  services_range_ = parse_ip_range(view.range());
  range_ = services_range_ ? view.range() : "";
  if (changes.all || changes.nodes)
    look_at_nodes(view);
  std::set<ServiceKey> keys = changes.services;
  if (changes.all) {
    for (const auto& [key, of] : services_) keys.insert(key);
    for (const auto& [key, place] : priced_) keys.insert(key);
    for (const auto& [key, fact] : view.services()) keys.insert(key);
  } else if (changes.nodes) {
    for (const auto& [key, of] : services_)
      if (of.has_external)
        keys.insert(key);
  }
  for (const ServiceKey& key : changes.services) left_out_.erase(key);  // it may be another one now
  keys.merge(price(view, keys));
  for (const ServiceKey& key : keys) {
    drop(key);
    look(view, key);
  }
}

void PacketRules::leave_out(const ServiceView& view, std::set<ServiceKey> services) {
  std::set<ServiceKey> changed;
  std::ranges::set_symmetric_difference(left_out_, services, std::inserter(changed, changed.end()));
  left_out_ = std::move(services);
  for (const ServiceKey& key : changed) {
    drop(key);
    look(view, key);
  }
}

void PacketRules::look_at_nodes(const ServiceView& view) {
  std::map<std::string, std::set<std::string>> wanted;
  ranges_.clear();
  for (const auto& [name, node] : view.nodes()) {
    if (const auto address = address_word(node.address))
      wanted[kNodes].insert(*address);
    if (const auto range = parse_ip_range(node.range)) {
      wanted[kRanges].insert(text_of(*range));
      ranges_.emplace(range->first, range->last());
    }
  }
  for (const char* map : {kNodes, kRanges}) {
    Kept& kept = maps_[map];
    for (const auto& [place, verdict] : std::map(kept.now))
      if (!wanted[map].contains(place))
        kept.put(place, std::nullopt);
    for (const std::string& place : wanted[map])
      if (!kept.now.contains(place))
        kept.put(place, "");
  }
}

// Ready ones; where none is, those that go and still serve. Source: kubernetes.io/docs/reference/networking/
// virtual-ips ("Traffic to terminating endpoints"). Of many ends behind many ports each port has a part.
PacketRules::EndsByPort PacketRules::ends_of(const ServiceView& view, const ServiceFact& fact) const {
  struct Found {
    Ends ready, going;
  };
  std::map<std::pair<std::string, std::string>, Found> found;
  EndsByPort out;
  if (fact.is_controller && !place_.controller.empty()) {
    for (const ServicePort& port : fact.ports)
      out[{port.protocol, port.name}].all.push_back({place_.controller, place_.controller_port});
    return out;
  }
  for (const ServicePort& port : fact.ports) found[{port.protocol, port.name}];
  for (const ServiceEnds* ends : view.ends_of({fact.space, fact.name}))
    for (const ServicePort& there : ends->ports) {
      const auto at = found.find({there.protocol, there.name});
      if (at == found.end() || there.port == 0)
        continue;
      for (const ServiceEnd& end : ends->ends) {
        const auto address = parse_ip(end.address);
        Ends* to = end.ready ? &at->second.ready : end.serving && end.going ? &at->second.going : nullptr;
        if (!address || !to || !may_be_end(*address) || (ip_text(*address) == place_.controller && end.node.empty()))
          continue;
        to->all.push_back({ip_text(*address), there.port});
        if (end.node == place_.node)
          to->local.push_back({ip_text(*address), there.port});
      }
    }
  const std::size_t most = std::max<std::size_t>(1, kElementsOfService / std::max<std::size_t>(1, fact.ports.size()));
  for (auto& [port, one] : found) {
    Ends& ends = out[port];
    ends = {one.ready.all.empty() ? std::move(one.going.all) : std::move(one.ready.all),
            one.ready.local.empty() ? std::move(one.going.local) : std::move(one.ready.local)};
    for (auto* list : {&ends.all, &ends.local}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
      list->resize(std::min(list->size(), most));
    }
  }
  return out;
}

// Nobody's service may take what is led by the cluster itself, or what is a node.
bool PacketRules::may_be_external(const std::string& address) const {
  const auto parsed = parse_ip(address);
  if (!parsed || is_loopback(*parsed) || !is_unicast(*parsed) || is_link_local(*parsed) || address == place_.controller)
    return false;
  if (services_range_ && services_range_->contains(*parsed))
    return false;
  if (const auto nodes = maps_.find(kNodes); nodes != maps_.end() && nodes->second.now.contains(ip_text(*parsed)))
    return false;
  const auto next = ranges_.upper_bound(*parsed);
  return next == ranges_.begin() || *parsed > std::prev(next)->second;
}

std::set<ServiceKey> PacketRules::price(const ServiceView& view, const std::set<ServiceKey>& keys) {
  std::set<std::string> spaces;
  for (const ServiceKey& key : keys) {
    if (const auto known = priced_.find(key); known != priced_.end()) {
      spaces_[known->second.first].erase(known->second.second);
      spaces.insert(known->second.first);
      priced_.erase(known);
    }
    const ServiceFact* fact = view.find(key);
    if (!fact || fact->headless || !fact->alias.empty())
      continue;
    std::size_t elements = 2 * fact->external.size();
    for (const auto& [port, ends] : ends_of(view, *fact)) {
      const bool is_sticky = fact->affinity_s > 0 && ends.all.size() * fact->ports.size() <= kStickyMax;
      elements += 3 + ends.all.size() * (is_sticky ? kStickyElements : 1) * (fact->local_outside ? 2 : 1);
    }
    spaces_[key.first][fact->order] = {key, elements};
    priced_[key] = {key.first, fact->order};
    spaces.insert(key.first);
  }
  std::set<ServiceKey> changed;
  for (const std::string& space : spaces) {
    std::size_t sum = 0;
    for (const auto& [order, one] : spaces_[space]) {
      const bool fits = sum + one.elements <= kElementsOfSpace;
      if (fits)
        sum += one.elements;
      if (fits ? beyond_.erase(one.key) > 0 : beyond_.insert(one.key).second)
        changed.insert(one.key);
    }
    if (spaces_[space].empty())
      spaces_.erase(space);
  }
  std::erase_if(beyond_, [&](const ServiceKey& key) { return !priced_.contains(key); });
  return changed;
}

// What a service's ports are to those who ask at addresses from outside.
struct PacketRules::Outside {
  std::vector<std::string> addresses;
  std::string chosen, ends, closed;  // elements of anonymous maps
};

namespace {

void add_element(std::string& elements, const std::string& key, const std::string& value) {
  elements += format("{}{} : {}", elements.empty() ? "" : ", ", key, value);
}

}  // namespace

void PacketRules::serve(OfService& of, Outside& outside, const ServiceFact& fact, const ServicePort& port,
                        const Ends& ends) const {
  const std::string &protocol = port.protocol, id = format("{}-{}-{}", fact.order, protocol, port.port);
  const std::string all = "s-" + id, local = "l-" + id, from_outside = "x-" + id;
  const bool has_doors = port.node_port != 0 || !outside.addresses.empty();
  const auto address = address_word(fact.address);
  const std::vector<LedTo>& inside = fact.local_inside ? ends.local : ends.all;
  const bool splits = fact.local_outside && has_doors && !ends.all.empty();
  if (ends.all.size() > 1 || splits)
    choose(of.chains, of.sets, fact, all, protocol, ends.all);
  if (splits || (fact.local_inside && inside.size() > 1))
    choose(of.chains, of.sets, fact, local, protocol, ends.local);
  if (address && inside.size() == 1)
    of.claims[{kCluster, at(*address, protocol, port.port)}] = "=" + end_text(inside[0]);
  else if (address && !inside.empty())
    of.claims[{kCluster, at(*address, protocol, port.port)}] = "goto " + (fact.local_inside ? local : all);
  for (const LedTo& end : ends.local) of.hairpins.insert(end.address);
  if (protocol == "udp") {
    of.udp.insert(ends.all.begin(), ends.all.end());
    if (!ends.all.empty()) {
      if (address)
        of.udp_doors.insert({*address, port.port});
      for (const std::string& one : outside.addresses) of.udp_doors.insert({one, port.port});
      if (port.node_port != 0)
        of.udp_doors.insert({"", port.node_port});
    }
  }
  if (!has_doors)
    return;
  std::string verdict;
  if (splits) {
    std::string& rules = of.chains[from_outside];
    // What comes from the cluster itself is led anywhere in it.
    add_line(rules, format("ip saddr @{} goto {}", kRanges, all));
    add_line(rules, format("fib saddr type local meta mark set meta mark | {} goto {}", kMark, all));
    add_line(rules, "goto " + local);
    verdict = "goto " + from_outside;
  } else if (ends.all.size() > 1) {
    add_line(of.chains[from_outside], format("meta mark set meta mark | {} goto {}", kMark, all));
    verdict = "goto " + from_outside;
  } else if (!ends.all.empty()) {
    verdict = "=" + end_text(ends.all[0]);
  }
  const char* const closed = ends.all.empty() ? kRefuse : fact.local_outside && ends.local.empty() ? kDrop : nullptr;
  const std::string door = format("{} . {}", protocol, port.port);
  if (verdict.starts_with('='))
    add_element(outside.ends, door, verdict.substr(1));
  else  // where an older one has nothing behind it, no younger one is asked
    add_element(outside.chosen, door, verdict.empty() ? "accept" : verdict);
  if (closed)
    add_element(outside.closed, door, closed);
  if (port.node_port == 0)
    return;
  of.node_ports.insert({protocol, port.node_port});
  if (taken_.contains({protocol, port.node_port}))
    return;
  const std::string node_door = format("{} . {}", protocol, port.node_port);
  of.claims[{kPorts, node_door}] = verdict.empty() ? "accept" : verdict;
  if (closed)
    of.claims[{kClosedPorts, node_door}] = closed;
}

void PacketRules::open_to_outside(OfService& of, const ServiceFact& fact, const Outside& outside) const {
  if (outside.addresses.empty() || (outside.chosen.empty() && outside.ends.empty()))
    return;
  std::string& rules = of.chains[format("x-{}", fact.order)];
  if (!outside.chosen.empty())
    add_line(rules, format("meta l4proto . th dport vmap {{ {} }}", outside.chosen));
  if (!outside.ends.empty()) {
    add_line(rules, format("meta mark set meta mark | {}", kMark));
    add_line(rules, format("{} dnat ip to meta l4proto . th dport map {{ {} }}", kTransports, outside.ends));
    add_line(rules, format("meta mark set meta mark ^ {}", kMark));
  }
  of.doors.insert(outside.addresses.begin(), outside.addresses.end());
  if (outside.closed.empty())
    return;
  add_line(of.chains[format("y-{}", fact.order)], format("meta l4proto . th dport vmap {{ {} }}", outside.closed));
  of.closed_doors = of.doors;
}

void PacketRules::look(const ServiceView& view, const ServiceKey& key) {
  touched_.insert(key);
  const ServiceFact* fact = view.find(key);
  if (!fact)
    return;
  OfService& of = services_[key];
  of.order = fact->order;
  of.has_external = !fact->external.empty();
  bool has_ends = false;
  if (!fact->headless && fact->alias.empty() && !left_out_.contains(key) && !beyond_.contains(key)) {
    Outside outside;
    for (const std::string& one : fact->external)
      if (const auto address = address_word(one); address && may_be_external(*address))
        outside.addresses.push_back(*address);
    const EndsByPort ends = ends_of(view, *fact);
    std::set<std::pair<std::string, std::uint16_t>> served;
    for (const ServicePort& port : fact->ports) {
      if (!is_protocol(port.protocol) || port.port == 0 || !served.insert({port.protocol, port.port}).second)
        continue;
      const Ends& its = ends.at({port.protocol, port.name});
      serve(of, outside, *fact, port, its);
      has_ends = has_ends || !its.all.empty();
    }
    open_to_outside(of, *fact, outside);
  }
  if (fact->answers_names && !has_ends)
    if (const auto address = address_word(fact->address)) {
      names_address_ = *address;
      names_service_ = key;
    }
  if (fact->health_port != 0) {
    std::set<std::string> local;
    for (const ServiceEnds* ends : view.ends_of(key))
      for (const ServiceEnd& end : ends->ends)
        if (end.ready && end.node == place_.node)
          local.insert(end.address);
    health_.try_emplace(fact->health_port, HealthPort{key.first, key.second, local.size()});
  }
  for (const auto& [name, rules] : of.chains) chains_.put(name, rules);
  for (const auto& [name, form] : of.sets) sets_.put(name, form);
  for (const auto& [place, verdict] : of.claims) {
    claims_[place][key] = {fact->order, verdict};
    settle_claim(place);
  }
  for (const std::string& one : of.doors) {
    doors_[one][of.order] = of.closed_doors.contains(one);
    settle_door(one);
  }
  for (const std::string& one : of.hairpins)
    if (++hairpins_[one] == 1)
      maps_[kHairpin].put(one + " . " + one, "");
  for (const NodePort& one : of.node_ports) ++node_ports_[one];
  for (const LedTo& one : of.udp) ++udp_[one];
  for (const LedTo& one : of.udp_doors) ++udp_doors_[one];
}

void PacketRules::drop(const ServiceKey& key) {
  touched_.insert(key);
  if (names_service_ == key) {
    names_service_ = {};
    names_address_.clear();
  }
  std::erase_if(health_,
                [&](const auto& one) { return one.second.space == key.first && one.second.name == key.second; });
  const auto known = services_.find(key);
  if (known == services_.end())
    return;
  const OfService of = std::move(known->second);
  services_.erase(known);
  for (const auto& [name, rules] : of.chains) chains_.put(name, std::nullopt);
  for (const auto& [name, form] : of.sets) sets_.put(name, std::nullopt);
  for (const auto& [place, verdict] : of.claims) {
    claims_[place].erase(key);
    settle_claim(place);
  }
  for (const std::string& one : of.doors) {
    doors_[one].erase(of.order);
    settle_door(one);
  }
  for (const std::string& one : of.hairpins)
    if (--hairpins_[one] == 0) {
      hairpins_.erase(one);
      maps_[kHairpin].put(one + " . " + one, std::nullopt);
    }
  for (const NodePort& one : of.node_ports)
    if (--node_ports_[one] == 0)
      node_ports_.erase(one);
  for (const LedTo& one : of.udp)
    if (--udp_[one] == 0)
      udp_.erase(one);
  for (const LedTo& one : of.udp_doors)
    if (--udp_doors_[one] == 0)
      udp_doors_.erase(one);
}

void PacketRules::settle_claim(const Place& place) {
  auto& claims = claims_[place];
  const auto first =
      std::min_element(claims.begin(), claims.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string verdict = first == claims.end() ? "" : first->second.verdict;
  const bool is_end = verdict.starts_with('='), is_word = !verdict.empty() && !is_end;
  if (Kept& words = maps_[place.first]; is_word || words.now.contains(place.second))
    words.put(place.second, is_word ? std::optional(verdict) : std::nullopt);
  if (const char* const beside = ends_beside(place.first)) {
    Kept& ends = maps_[beside];
    if (is_end || ends.now.contains(place.second))
      ends.put(place.second, is_end ? std::optional(verdict.substr(1)) : std::nullopt);
  }
  if (claims.empty())
    claims_.erase(place);
}

// The chains that an address from outside leads to: each asks the services that claim it, the oldest first.
void PacketRules::settle_door(const std::string& address) {
  const auto claims = doors_.find(address);
  std::string open, closed;
  if (claims != doors_.end())
    for (const auto& [order, has_closed] : claims->second) {
      add_line(open, format("jump x-{}", order));
      if (has_closed)
        add_line(closed, format("jump y-{}", order));
    }
  for (const auto& [map, prefix, rules] : {std::tuple(kExternal, "e-", &open), std::tuple(kClosed, "f-", &closed)}) {
    const std::string chain = prefix + address;
    if (rules->empty() && !chains_.now.contains(chain))
      continue;
    chains_.put(chain, rules->empty() ? std::nullopt : std::optional(*rules));
    maps_[map].put(address, rules->empty() ? std::nullopt : std::optional("goto " + chain));
  }
  if (claims != doors_.end() && claims->second.empty())
    doors_.erase(claims);
}

// --- ports of the node ---

void PacketRules::set_taken(const ServiceView& view, std::set<NodePort> ports) {
  std::set<NodePort> changed;
  std::ranges::set_symmetric_difference(taken_, ports, std::inserter(changed, changed.end()));
  taken_ = std::move(ports);
  if (changed.empty())
    return;
  std::vector<ServiceKey> keys;
  for (const auto& [key, of] : services_)
    if (std::ranges::any_of(of.node_ports, [&](const NodePort& port) { return changed.contains(port); }))
      keys.push_back(key);
  for (const ServiceKey& key : keys) {
    drop(key);
    look(view, key);
  }
}

// --- as text ---

std::string PacketRules::removal(const std::string& table) {
  return format("add table ip {0}\ndelete table ip {0}\n", table);
}

// What does not depend on services: hooks, and what they ask.
std::string PacketRules::frame() const {
  std::string out = format("table ip {} {{\n", place_.table);
  for (const MapForm& map : kMaps)
    out += format("  {} {} {{ type {}{}; }}\n", *map.of ? "map" : "set", map.name, map.type, map.of);
  const auto chain = [&](const char* name, const char* hook, const std::vector<std::string>& rules) {
    out += format("  chain {} {{\n", name);
    if (*hook)
      add_line(out, hook);
    for (const std::string& rule : rules) add_line(out, rule);
    out += "  }\n";
  };
  const std::string not_names = names_address_.empty() ? "" : format("ip daddr != {} ", names_address_);
  chain("refuse", "", {"reject"});
  const std::string own = format("ip daddr != 127.0.0.0/8 {}fib daddr type local", not_names);
  chain("own-ports", "",
        {format("meta l4proto . th dport vmap @{}", kPorts), format("meta mark set meta mark | {}", kMark),
         format("{} dnat ip to meta l4proto . th dport map @{}", kTransports, kOneEndPorts),
         format("meta mark set meta mark ^ {}", kMark)});
  // An address that the node itself has is reached by ports of the node and nobody's from outside.
  chain("services", "",
        {format("ip daddr . meta l4proto . th dport vmap @{}", kCluster),
         format("{} dnat ip to ip daddr . meta l4proto . th dport map @{}", kTransports, kOneEnd),
         format("fib daddr type != local ip daddr vmap @{}", kExternal), own + " goto own-ports"});
  std::vector<std::string> unled;
  if (!range_.empty())
    unled.push_back(format("ip daddr {} {}goto refuse", range_, not_names));
  unled.push_back(format("fib daddr type != local ip daddr vmap @{}", kClosed));
  chain("unled", "", unled);
  chain("prerouting", "type nat hook prerouting priority -100; policy accept;", {"jump services"});
  chain("output", "type nat hook output priority -100; policy accept;", {"jump services"});
  chain("forwarded", "type filter hook forward priority 0; policy accept;", {"ct state new jump unled"});
  chain("sent", "type filter hook output priority 0; policy accept;", {"ct state new jump unled"});
  chain("received", "type filter hook input priority 0; policy accept;",
        {"ct state new jump unled",
         format("ct state new fib daddr type local meta l4proto . th dport vmap @{}", kClosedPorts)});
  std::vector<std::string> leaving{format("ct status dnat ip saddr . ip daddr @{} masquerade", kHairpin),
                                   format("meta mark & {0} == {0} goto as-this-node", kMark)};
  if (!place_.range.empty())  // the world knows this node's tasks by its address alone
    leaving.push_back(format("ip saddr {} ip daddr != @{} ip daddr != @{} masquerade", place_.range, kRanges, kNodes));
  chain("as-this-node", "", {format("meta mark set meta mark ^ {}", kMark), "masquerade fully-random"});
  chain("leaving", "type nat hook postrouting priority 100; policy accept;", leaving);
  return out + "}\n";
}

std::string PacketRules::whole() const {
  std::string out = removal(place_.table) + frame();
  for (const auto& [name, form] : sets_.now) out += format("add set ip {} {} {{ {}; }}\n", place_.table, name, form);
  for (const auto& [name, rules] : chains_.now) out += format("add chain ip {} {}\n", place_.table, name);
  out += format("table ip {} {{\n", place_.table);
  for (const auto& [name, rules] : chains_.now) out += format("  chain {} {{\n{}  }}\n", name, rules);
  out += "}\n";
  for (const auto& [map, kept] : maps_)
    put_elements(out, "add", place_.table, map, {kept.now.begin(), kept.now.end()}, true);
  return out;
}

std::string PacketRules::since_settled() const {
  if (settled_frame_ != frame())
    return whole();
  std::string made, filled, unmade;
  const auto is_changed = [](const Kept& kept, const auto& one) {
    const auto now = kept.now.find(one.first);
    return now == kept.now.end() ? one.second.has_value() : one.second != now->second;
  };
  for (const auto& one : sets_.before) {
    if (!is_changed(sets_, one))
      continue;
    const auto now = sets_.now.find(one.first);
    if (one.second && now != sets_.now.end())
      return whole();  // its time has changed: no set can be given another one
    if (now != sets_.now.end())
      made += format("add set ip {} {} {{ {}; }}\n", place_.table, one.first, now->second);
    else
      unmade += format("delete set ip {} {}\n", place_.table, one.first);
  }
  std::string removed_chains;
  for (const auto& one : chains_.before) {
    if (!is_changed(chains_, one))
      continue;
    const auto now = chains_.now.find(one.first);
    if (!one.second)
      made += format("add chain ip {} {}\n", place_.table, one.first);
    else
      made += format("flush chain ip {} {}\n", place_.table, one.first);
    if (now == chains_.now.end())
      removed_chains += format("delete chain ip {} {}\n", place_.table, one.first);
    else if (!now->second.empty())
      filled += format("  chain {} {{\n{}  }}\n", one.first, now->second);
  }
  std::string elements;
  for (const auto& [map, kept] : maps_) {
    std::vector<std::pair<std::string, std::string>> gone, come;
    for (const auto& one : kept.before) {
      if (!is_changed(kept, one))
        continue;
      if (one.second)
        gone.emplace_back(one.first, *one.second);
      if (const auto now = kept.now.find(one.first); now != kept.now.end())
        come.emplace_back(one.first, now->second);
    }
    put_elements(elements, "delete", place_.table, map, gone, true);
    put_elements(elements, "add", place_.table, map, come, true);
  }
  if (!filled.empty())
    filled = format("table ip {} {{\n{}}}\n", place_.table, filled);
  return made + filled + elements + removed_chains + unmade;
}

void PacketRules::settle() {
  touched_.clear();
  chains_.before.clear();
  sets_.before.clear();
  for (auto& [map, kept] : maps_) kept.before.clear();
  settled_frame_ = frame();
  settled_udp_.clear();
  settled_udp_doors_.clear();
  for (const auto& [one, count] : udp_) settled_udp_.insert(one);
  for (const auto& [one, count] : udp_doors_) settled_udp_doors_.insert(one);
}

PacketRules::StaleFlows PacketRules::stale_udp() const {
  StaleFlows out;
  for (const LedTo& one : settled_udp_)
    if (!udp_.contains(one))
      out.gone.push_back(one);
  for (const auto& [one, count] : udp_doors_)
    if (!settled_udp_doors_.contains(one))
      out.opened.push_back(one);
  return out;
}

}  // namespace lockstep
