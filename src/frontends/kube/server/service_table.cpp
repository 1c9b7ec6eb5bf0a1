#include "frontends/kube/server/service_table.h"

#include "base/text.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/server/service_addresses.h"
#include "frontends/kube/server/service_facts.h"
#include "frontends/kube/server/target.h"
#include "model/node.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kGoneMax = 20'000;  // removals that are told to those who were away
constexpr Duration kStreamLife = hours(24);
constexpr const char *kServiceKind = "service", *kEndsKind = "ends", *kNodeKind = "node";

bool is_node(const Peer& peer) {
  return peer.how == Peer::How::kForwarded && peer.realm.empty() && peer.uid == 0 &&
         peer.certificate_name.starts_with("node:");
}

std::string line_of(const Node& node) {
  return encode_service_line(NodeFact{node.meta.name, node.address, node.task_range});
}

}  // namespace

void ServiceTable::begin(const Tables& tables) {
  for (const char* type : {kServicesType, kSlicesType})
    for (auto at = tables.objects.lower_bound({type, "", ""});
         at != tables.objects.end() && std::get<0>(at->first) == type; ++at)
      look(*at->second, true);
  for (const auto& [id, node] : tables.nodes) put({kNodeKind, "", node->meta.name}, line_of(*node));
}

void ServiceTable::change(const Tables& /*before*/, const Change& change) {
  if (const auto* object = std::get_if<Ref<Object>>(&change.record)) {
    if ((*object)->type == kServicesType || (*object)->type == kSlicesType)
      look(**object, !change.removed);
  } else if (const auto* node = std::get_if<Ref<Node>>(&change.record)) {
    if (change.removed)
      remove({kNodeKind, "", (*node)->meta.name});
    else
      put({kNodeKind, "", (*node)->meta.name}, line_of(**node));
  }
}

void ServiceTable::look(const Object& object, bool there) {
  const bool is_service = object.type == kServicesType;
  const Key key{is_service ? kServiceKind : kEndsKind, object.meta.ns, object.meta.name};
  if (!there)
    return remove(key);
  if (is_service)
    return put(key, encode_service_line(fact_of_service(object)));
  if (const auto ends = ends_of_slice(object))
    put(key, encode_service_line(*ends));
  else
    remove(key);
}

void ServiceTable::put(Key key, std::string text) {
  Line& line = lines_[key];
  if (line.text == text)
    return;
  order_.erase(line.version);
  gone_.erase(line.version);
  line.gone.clear();
  line.text = std::move(text);
  line.version = ++version_;
  order_[line.version] = std::move(key);
}

void ServiceTable::remove(const Key& key) {
  const auto at = lines_.find(key);
  if (at == lines_.end() || at->second.text.empty())
    return;
  Line& line = at->second;
  order_.erase(line.version);
  line.text.clear();
  line.gone = encode_service_line(ServiceGone{std::get<0>(key), std::get<1>(key), std::get<2>(key)});
  line.version = ++version_;
  order_[line.version] = key;
  gone_.insert(line.version);
  if (gone_.size() <= kGoneMax)
    return;
  forgotten_ = *gone_.begin();
  gone_.erase(gone_.begin());
  lines_.erase(order_.at(forgotten_));
  order_.erase(forgotten_);
}

std::uint64_t ServiceTable::place_after(std::string_view epoch, std::uint64_t version) const {
  return epoch == epoch_ && version >= forgotten_ && version <= version_ ? version : 0;
}

Pulled ServiceTable::tell(Place& place, std::string& out) const {
  const std::size_t from = out.size();
  const bool anew = place.version == 0;
  if (!std::exchange(place.began, true))
    out += encode_service_line(ServiceHead{kClusterDomain, kServiceRange, anew});
  else if (place.version != 0 && place.version < forgotten_)
    return Pulled::kEnd;
  for (auto at = order_.upper_bound(place.version); at != order_.end(); ++at) {
    if (out.size() - from > kPieceBytes)
      return Pulled::kMore;
    const Line& line = lines_.at(at->second);
    out += line.gone.empty() ? line.text : line.gone;
    place.version = at->first;
    place.marked = false;
  }
  if (!std::exchange(place.marked, true))
    out += encode_service_line(ServiceMark{epoch_, place.version});
  return Pulled::kNothing;
}

void answer_service_table(FrontVisit& visit, std::shared_ptr<const ServiceTable> table) {
  if (!is_node(visit.request().peer))
    return visit.refuse(denied("where services lead is told to the nodes of the cluster, through their agents"));
  const auto version = parse_uint(query_of(visit.request(), "version")).value_or(0);
  const auto place = std::make_shared<ServiceTable::Place>();
  place->version = table->place_after(query_of(visit.request(), "epoch"), version);
  visit.stream({200, "application/x-ndjson", "", {{"Cache-Control", "no-cache, private"}}},
               [table, place](std::string& out) { return table->tell(*place, out); }, kStreamLife);
}

}  // namespace lockstep::kube
