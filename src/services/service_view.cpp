#include "services/service_view.h"

namespace lockstep {

namespace {

constexpr std::size_t kFactsMax = 200'000;  // services, and parts of what is behind them, each

}  // namespace

void ServiceView::hear(ServiceLine line) {
  Table& table = next_ ? *next_ : now_;
  if (auto* head = std::get_if<ServiceHead>(&line)) {
    next_.reset();
    if (head->anew) {
      next_.emplace();
      next_->head = std::move(*head);
    } else {
      now_.head = std::move(*head);
    }
  } else if (auto* fact = std::get_if<ServiceFact>(&line)) {
    put(table, std::move(*fact));
  } else if (auto* ends = std::get_if<ServiceEnds>(&line)) {
    put(table, std::move(*ends));
  } else if (auto* node = std::get_if<NodeFact>(&line)) {
    put(table, std::move(*node));
  } else if (const auto* gone = std::get_if<ServiceGone>(&line)) {
    remove(table, *gone);
  } else if (auto* mark = std::get_if<ServiceMark>(&line)) {
    mark_ = std::move(*mark);
    if (!next_)
      return;
    now_ = std::move(*next_);
    next_.reset();
    whole_ = true;
    changes_.all = true;
  }
}

const ServiceFact* ServiceView::find(const ServiceKey& key) const {
  const auto at = now_.services.find(key);
  return at == now_.services.end() ? nullptr : &at->second;
}

std::vector<const ServiceEnds*> ServiceView::ends_of(const ServiceKey& service) const {
  std::vector<const ServiceEnds*> out;
  if (const auto names = now_.ends_of.find(service); names != now_.ends_of.end())
    for (const std::string& name : names->second)
      if (const auto at = now_.ends.find({service.first, name}); at != now_.ends.end())
        out.push_back(&at->second);
  return out;
}

std::vector<ServiceKey> ServiceView::at_address(const std::string& address) const {
  std::vector<ServiceKey> out;
  if (const auto at = now_.addresses.find(address); at != now_.addresses.end())
    for (const auto& [key, count] : at->second) out.push_back(key);
  return out;
}

ServiceView::Changes ServiceView::take_changes() { return std::exchange(changes_, {}); }

void ServiceView::changed(const Table& table, const ServiceKey& key) {
  if (&table == &now_)
    changes_.services.insert(key);
}

void ServiceView::drop_service(Table& table, const ServiceKey& key) {
  const auto at = table.services.find(key);
  if (at == table.services.end())
    return;
  if (const auto known = table.addresses.find(at->second.address); known != table.addresses.end()) {
    if (const auto count = known->second.find(key); count != known->second.end() && --count->second == 0)
      known->second.erase(count);
    if (known->second.empty())
      table.addresses.erase(known);
  }
  if (const auto space = table.spaces.find(key.first); space != table.spaces.end() && --space->second == 0)
    table.spaces.erase(space);
  table.services.erase(at);
}

void ServiceView::drop_ends(Table& table, const ServiceKey& key) {
  const auto at = table.ends.find(key);
  if (at == table.ends.end())
    return;
  const ServiceKey service{key.first, at->second.service};
  for (const ServiceEnd& end : at->second.ends)
    if (const auto known = table.addresses.find(end.address); known != table.addresses.end()) {
      if (const auto count = known->second.find(service); count != known->second.end() && --count->second == 0)
        known->second.erase(count);
      if (known->second.empty())
        table.addresses.erase(known);
    }
  if (const auto names = table.ends_of.find(service); names != table.ends_of.end()) {
    names->second.erase(key.second);
    if (names->second.empty())
      table.ends_of.erase(names);
  }
  table.ends.erase(at);
}

void ServiceView::put(Table& table, ServiceFact fact) {
  const ServiceKey key{fact.space, fact.name};
  drop_service(table, key);
  if (table.services.size() >= kFactsMax)
    return;
  ++table.spaces[fact.space];
  if (!fact.address.empty())
    ++table.addresses[fact.address][key];
  table.services[key] = std::move(fact);
  changed(table, key);
}

void ServiceView::put(Table& table, ServiceEnds ends) {
  const ServiceKey key{ends.space, ends.name};
  if (const auto before = table.ends.find(key); before != table.ends.end())
    changed(table, {key.first, before->second.service});
  drop_ends(table, key);
  if (table.ends.size() >= kFactsMax)
    return;
  const ServiceKey service{ends.space, ends.service};
  table.ends_of[service].insert(ends.name);
  for (const ServiceEnd& end : ends.ends) ++table.addresses[end.address][service];
  table.ends[key] = std::move(ends);
  changed(table, service);
}

void ServiceView::put(Table& table, NodeFact node) {
  if (table.nodes.size() >= kFactsMax)
    return;
  table.nodes[node.name] = std::move(node);
  if (&table == &now_)
    changes_.nodes = true;
}

void ServiceView::remove(Table& table, const ServiceGone& gone) {
  const ServiceKey key{gone.space, gone.name};
  if (gone.kind == "service") {
    drop_service(table, key);
    changed(table, key);
  } else if (gone.kind == "ends") {
    if (const auto at = table.ends.find(key); at != table.ends.end())
      changed(table, {gone.space, at->second.service});
    drop_ends(table, key);
  } else if (gone.kind == "node" && table.nodes.erase(gone.name) > 0 && &table == &now_) {
    changes_.nodes = true;
  }
}

}  // namespace lockstep
