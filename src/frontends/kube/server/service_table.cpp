#include "frontends/kube/server/service_table.h"

#include <algorithm>

#include "base/ip_range.h"
#include "base/text.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/server/service_addresses.h"
#include "frontends/kube/server/service_facts.h"
#include "frontends/kube/server/target.h"
#include "model/node.h"

namespace lockstep::kube {

namespace {

constexpr std::size_t kPieceBytes = 64 << 10;
constexpr std::size_t kGoneMax = 20'000;       // removals that are told to those who were away
constexpr std::size_t kAheadBytes = 64 << 10;  // that a node has not read, before it is told more
constexpr std::size_t kStreamsOfNode = 2;  // an agent that starts again may be faster than the end of its connection
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
  listed_ = ExternalRanges::of(tables);
  for (const char* type : {kServicesType, kSlicesType})
    for (auto at = tables.objects.lower_bound({type, "", ""});
         at != tables.objects.end() && std::get<0>(at->first) == type; ++at)
      look(*at->second, true);
  for (const auto& [id, node] : tables.nodes) put({kNodeKind, "", node->meta.name}, line_of(*node));
}

void ServiceTable::change(const Tables& before_tables, const Change& change) {
  ended_.clear();
  const std::uint64_t before = version_;
  if (const auto* object = std::get_if<Ref<Object>>(&change.record)) {
    if ((*object)->type == kServicesType || (*object)->type == kSlicesType)
      look(**object, !change.removed);
    if ((*object)->type == "configmaps" && (*object)->meta.ns == kExternalSpace &&
        (*object)->meta.name == kExternalName) {
      listed_ = ExternalRanges::of(change.removed ? nullptr : object->get());
      look_at_services(before_tables);
    }
  } else if (const auto* node = std::get_if<Ref<Node>>(&change.record)) {
    if (change.removed)
      remove({kNodeKind, "", (*node)->meta.name});
    else
      put({kNodeKind, "", (*node)->meta.name}, line_of(**node));
  }
  if (version_ == before)
    return;
  std::vector<std::uint64_t> all;
  for (const auto& [id, follower] : followers_) all.push_back(id);
  for (const std::uint64_t id : all) feed(id);
}

void ServiceTable::look_at_services(const Tables& tables) {
  for (auto at = tables.objects.lower_bound({kServicesType, "", ""});
       at != tables.objects.end() && std::get<0>(at->first) == kServicesType; ++at)
    look(*at->second, true);
}

// What was written before there was a list, or by an administrator, is judged here as well.
ServiceFact ServiceTable::shown_fact(const Object& service) const {
  ServiceFact fact = fact_of_service(service);
  if (fact.external.empty())
    return fact;
  const std::vector<std::string> own = own_ ? own_() : std::vector<std::string>();
  std::erase_if(fact.external, [&](const std::string& one) {
    const auto address = parse_ip(one);
    return !address || !listed_.contains(*address) || std::ranges::find(own, one) != own.end();
  });
  return fact;
}

void ServiceTable::look(const Object& object, bool there) {
  const bool is_service = object.type == kServicesType;
  const Key key{is_service ? kServiceKind : kEndsKind, object.meta.ns, object.meta.name};
  if (!there)
    return remove(key);
  if (is_service)
    return put(key, encode_service_line(shown_fact(object)));
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
    out += mark(place.version);
  return Pulled::kNothing;
}

const std::string& ServiceTable::mark(std::uint64_t version) const {
  if (std::exchange(marked_, version) != version)
    mark_ = encode_service_line(ServiceMark{epoch_, version});
  return mark_;
}

void ServiceTable::follow(const std::string& node, std::unique_ptr<Stream> stream, Place place) {
  ended_.clear();
  std::vector<std::uint64_t> older;
  for (const auto& [id, follower] : followers_)
    if (follower->node == node)
      older.push_back(id);
  for (std::size_t i = 0; i + kStreamsOfNode <= older.size(); ++i) {
    followers_.at(older[i])->stream->close();
    end(older[i]);
  }
  const std::uint64_t id = next_++;
  const auto one = std::make_shared<Follower>(Follower{node, std::move(stream), place});
  followers_[id] = one;
  one->stream->on_close([this, id] { end(id); });
  one->stream->on_drained([this, id] { feed(id); });
  feed(id);
}

void ServiceTable::feed(std::uint64_t id) {
  const auto at = followers_.find(id);
  if (at == followers_.end())
    return;
  const std::shared_ptr<Follower> one = at->second;
  for (Pulled last = Pulled::kMore; last == Pulled::kMore && one->stream->unsent() <= kAheadBytes;) {
    std::string piece;
    last = tell(one->place, piece);
    if (!piece.empty())
      one->stream->write(std::move(piece));
    if (last == Pulled::kEnd) {
      one->stream->close();
      return end(id);
    }
  }
}

void ServiceTable::end(std::uint64_t id) {
  if (const auto at = followers_.find(id); at != followers_.end()) {
    ended_.push_back(std::move(at->second));
    followers_.erase(at);
  }
}

void answer_service_table(FrontVisit& visit, ServiceTable& table) {
  const Peer& peer = visit.request().peer;
  if (!is_node(peer))
    return visit.refuse(denied("where services lead is told to the nodes of the cluster, through their agents"));
  const auto version = parse_uint(query_of(visit.request(), "version")).value_or(0);
  ServiceTable::Place place;
  place.version = table.place_after(query_of(visit.request(), "epoch"), version);
  const std::string node = peer.certificate_name;
  if (auto stream = visit.open({200, "application/x-ndjson", "", {{"Cache-Control", "no-cache, private"}}}))
    table.follow(node, std::move(stream), place);
}

}  // namespace lockstep::kube
