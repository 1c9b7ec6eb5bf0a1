#include "services/packet_rules.h"

#include <algorithm>
#include <utility>

#include "base/ip_range.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kElementsAtOnce = 500;  // in one line of text
constexpr std::size_t kStickyMax = 256;       // beyond so many ends a client's is computed, not remembered
constexpr const char* kMark = "0x4000";       // of packets whose sender is to be this node
constexpr const char *kCluster = "cluster", *kExternal = "external", *kPorts = "ports", *kClosed = "closed",
                     *kClosedPorts = "closed-ports", *kHairpin = "hairpin", *kNodes = "nodes", *kRanges = "ranges";
constexpr const char *kRefuse = "goto refuse", *kDrop = "drop";

// Facts come from users: what becomes a word of the filter's language is an address or one of these words.
bool is_protocol(const std::string& text) { return text == "tcp" || text == "udp" || text == "sctp"; }

std::optional<std::string> address_word(const std::string& text) {
  const auto parsed = parse_ip(text);
  return parsed ? std::optional(ip_text(*parsed)) : std::nullopt;
}

std::string at(const std::string& address, const std::string& protocol, std::uint16_t port) {
  return format("{} . {} . {}", address, protocol, port);
}

void add_line(std::string& rules, const std::string& line) { rules += "    " + line + "\n"; }

struct MapForm {
  const char *name, *type;
  bool is_map;
};
constexpr MapForm kMaps[] = {{kCluster, "ipv4_addr . inet_proto . inet_service", true},
                             {kExternal, "ipv4_addr . inet_proto . inet_service", true},
                             {kClosed, "ipv4_addr . inet_proto . inet_service", true},
                             {kPorts, "inet_proto . inet_service", true},
                             {kClosedPorts, "inet_proto . inet_service", true},
                             {kHairpin, "ipv4_addr . ipv4_addr", false},
                             {kNodes, "ipv4_addr", false},
                             {kRanges, "ipv4_addr; flags interval", false}};

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
  for (std::size_t i = 0; i < ends.size(); ++i)
    choice += format("{}{} : {} . {}", i ? ", " : "", i, ends[i].address, ends[i].port);
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
  if (ends.size() > kStickyMax) {
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
  range_ = parse_ip_range(view.range()) ? view.range() : "";
  if (changes.all || changes.nodes)
    look_at_nodes(view);
  std::set<ServiceKey> keys = changes.services;
  if (changes.all) {
    for (const auto& [key, of] : services_) keys.insert(key);
    for (const auto& [key, fact] : view.services()) keys.insert(key);
  } else if (changes.nodes) {
    for (const auto& [key, of] : services_)
      if (of.has_external)
        keys.insert(key);
  }
  for (const ServiceKey& key : keys) {
    drop(key);
    look(view, key);
  }
}

void PacketRules::look_at_nodes(const ServiceView& view) {
  std::map<std::string, std::set<std::string>> wanted;
  for (const auto& [name, node] : view.nodes()) {
    if (const auto address = address_word(node.address))
      wanted[kNodes].insert(*address);
    if (const auto range = parse_ip_range(node.range))
      wanted[kRanges].insert(text_of(*range));
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
// virtual-ips ("Traffic to terminating endpoints").
PacketRules::Ends PacketRules::ends_of(const ServiceView& view, const ServiceFact& fact,
                                       const ServicePort& port) const {
  Ends ready, going;
  if (fact.is_controller && !place_.controller.empty()) {
    ready.all.push_back({place_.controller, place_.controller_port});
    return ready;
  }
  for (const ServiceEnds* ends : view.ends_of({fact.space, fact.name}))
    for (const ServicePort& there : ends->ports) {
      if (there.name != port.name || there.protocol != port.protocol || there.port == 0)
        continue;
      for (const ServiceEnd& end : ends->ends) {
        const auto address = address_word(end.address);
        Ends* to = end.ready ? &ready : end.serving && end.going ? &going : nullptr;
        if (!address || !to)
          continue;
        to->all.push_back({*address, there.port});
        if (end.node == place_.node)
          to->local.push_back({*address, there.port});
      }
    }
  Ends out{ready.all.empty() ? going.all : ready.all, ready.local.empty() ? going.local : ready.local};
  for (auto* list : {&out.all, &out.local}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return out;
}

// Nobody's service may take what is led by the cluster itself.
bool PacketRules::may_be_external(const ServiceView& view, const std::string& address) const {
  const auto parsed = parse_ip(address);
  if (!parsed || *parsed >> 24 == 0 || *parsed >> 24 == 127 || *parsed >> 28 >= 14 || address == place_.controller)
    return false;
  const auto range = parse_ip_range(view.range());
  if (range && range->contains(*parsed))
    return false;
  return std::none_of(view.nodes().begin(), view.nodes().end(), [&](const auto& node) {
    const auto of_tasks = parse_ip_range(node.second.range);
    return of_tasks && of_tasks->contains(*parsed);
  });
}

void PacketRules::serve(OfService& of, const ServiceView& view, const ServiceFact& fact,
                        const ServicePort& port) const {
  const std::string &protocol = port.protocol, id = format("{}-{}-{}", fact.order, protocol, port.port);
  const Ends ends = ends_of(view, fact, port);
  const std::string all = "s-" + id, local = "l-" + id, outside = "x-" + id;
  choose(of.chains, of.sets, fact, all, protocol, ends.all);
  if (fact.local_inside || fact.local_outside)
    choose(of.chains, of.sets, fact, local, protocol, ends.local);
  if (const auto address = address_word(fact.address))
    of.claims[{kCluster, at(*address, protocol, port.port)}] = "goto " + (fact.local_inside ? local : all);

  std::vector<Place> open, closed;
  for (const std::string& one : fact.external)
    if (const auto address = address_word(one); address && may_be_external(view, *address)) {
      open.emplace_back(kExternal, at(*address, protocol, port.port));
      closed.emplace_back(kClosed, at(*address, protocol, port.port));
    }
  if (port.node_port != 0) {
    open.emplace_back(kPorts, format("{} . {}", protocol, port.node_port));
    closed.emplace_back(kClosedPorts, format("{} . {}", protocol, port.node_port));
  }
  for (const LedTo& end : ends.local) of.hairpins.insert(end.address);
  if (protocol == "udp") {
    of.udp.insert(ends.all.begin(), ends.all.end());
    if (!ends.all.empty()) {
      if (const auto address = address_word(fact.address))
        of.udp_doors.insert({*address, port.port});
      for (const std::string& one : fact.external)
        if (const auto address = address_word(one))
          of.udp_doors.insert({*address, port.port});
      if (port.node_port != 0)
        of.udp_doors.insert({"", port.node_port});
    }
  }
  if (open.empty())
    return;
  of.has_external = of.has_external || !fact.external.empty();
  std::string& rules = of.chains[outside];
  if (fact.local_outside) {
    // What comes from the cluster itself is led anywhere in it.
    add_line(rules, format("ip saddr @{} goto {}", kRanges, all));
    add_line(rules, format("fib saddr type local meta mark set meta mark | {} goto {}", kMark, all));
    add_line(rules, "goto " + local);
  } else {
    add_line(rules, format("meta mark set meta mark | {} goto {}", kMark, all));
  }
  for (const Place& place : open) of.claims[place] = "goto " + outside;
  if (ends.all.empty())
    for (const Place& place : closed) of.claims[place] = kRefuse;
  else if (fact.local_outside && ends.local.empty())
    for (const Place& place : closed) of.claims[place] = kDrop;
}

void PacketRules::look(const ServiceView& view, const ServiceKey& key) {
  const ServiceFact* fact = view.find(key);
  if (!fact)
    return;
  OfService& of = services_[key];
  bool has_ends = false;
  if (!fact->headless && fact->alias.empty())
    for (const ServicePort& port : fact->ports)
      if (is_protocol(port.protocol) && port.port != 0) {
        serve(of, view, *fact, port);
        has_ends = has_ends || !ends_of(view, *fact, port).all.empty();
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
  for (const std::string& one : of.hairpins)
    if (++hairpins_[one] == 1)
      maps_[kHairpin].put(one + " . " + one, "");
  for (const LedTo& one : of.udp) ++udp_[one];
  for (const LedTo& one : of.udp_doors) ++udp_doors_[one];
}

void PacketRules::drop(const ServiceKey& key) {
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
  for (const std::string& one : of.hairpins)
    if (--hairpins_[one] == 0) {
      hairpins_.erase(one);
      maps_[kHairpin].put(one + " . " + one, std::nullopt);
    }
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
  if (first != claims.end())
    return maps_[place.first].put(place.second, first->second.verdict);
  maps_[place.first].put(place.second, std::nullopt);
  claims_.erase(place);
}

// --- as text ---

std::string PacketRules::removal(const std::string& table) {
  return format("add table ip {0}\ndelete table ip {0}\n", table);
}

// What does not depend on services: hooks, and what they ask.
std::string PacketRules::frame() const {
  std::string out = format("table ip {} {{\n", place_.table);
  for (const MapForm& map : kMaps)
    out += format("  {} {} {{ type {}{}; }}\n", map.is_map ? "map" : "set", map.name, map.type,
                  map.is_map ? " : verdict" : "");
  const auto chain = [&](const char* name, const char* hook, const std::vector<std::string>& rules) {
    out += format("  chain {} {{\n", name);
    if (*hook)
      add_line(out, hook);
    for (const std::string& rule : rules) add_line(out, rule);
    out += "  }\n";
  };
  const std::string not_names = names_address_.empty() ? "" : format("ip daddr != {} ", names_address_);
  chain("refuse", "", {"reject"});
  chain("services", "",
        {format("ip daddr . meta l4proto . th dport vmap @{}", kCluster),
         format("ip daddr . meta l4proto . th dport vmap @{}", kExternal),
         format("ip daddr != 127.0.0.0/8 {}fib daddr type local meta l4proto . th dport vmap @{}", not_names, kPorts)});
  std::vector<std::string> unled;
  if (!range_.empty())
    unled.push_back(format("ip daddr {} {}goto refuse", range_, not_names));
  unled.push_back(format("ip daddr . meta l4proto . th dport vmap @{}", kClosed));
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
