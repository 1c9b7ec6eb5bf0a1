#include "frontends/kube/server/shown_texts.h"

#include <algorithm>

#include "frontends/kube/kinds/node_lease.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/server/shown.h"

namespace lockstep::kube {

namespace {

// Whether the text follows from the object and the records that it shows alone.
bool same_for_all(const Request& request) {
  const auto& custom = request.kind->custom;
  return request.accepted.form != Accepted::Form::kTable && !is_scale(request) &&
         !(custom && (custom->has_defaults || custom->notes_version));
}

Ref<Node> node_named(const Tables& tables, std::string_view name) {
  const Node* node = tables.node(name);
  const auto at = node ? tables.nodes.find(node->id) : tables.nodes.end();
  return at == tables.nodes.end() ? nullptr : at->second;
}

// Which object, in which form.
std::string key_of(const Request& request, const Object& object) {
  const Accepted& accepted = request.accepted;
  std::string key(reinterpret_cast<const char*>(&object.meta.uid), sizeof object.meta.uid);
  key += static_cast<char>(accepted.protobuf);
  key += static_cast<char>(accepted.form);
  if (accepted.form == Accepted::Form::kMetadata)
    key += accepted.version;
  return key += request.api_version;
}

}  // namespace

void ShownTexts::append(std::string& out, const Request& request, const Object& object, Seq seq,
                        const PodRecords* then) {
  if (!same_for_all(request))
    return request.accepted.form == Accepted::Form::kTable ? append_item(out, request, object, then)
                                                           : append_shown(out, request, object, seq, then);
  const auto read = request.visit->read();
  Basis basis{.version = object.meta.seq, .shown_as = seq, .wall_offset = wall_offset_of(*read)};
  if (object.type == kPods)
    basis.pod = pod_now(request, object, then);
  else if (object.type == kNodes || is_node_lease(object))
    if (const Ref<Node> node = basis.pod.records.node = node_named(read->tables, object.meta.name))
      basis.heard = heard_at(*node, read->now, basis.wall_offset);
  const std::string key = key_of(request, object);
  auto known = by_key_.find(key);
  if (known == by_key_.end() || known->second->basis != basis) {
    const std::size_t from = out.size();
    append_shown(out, request, object, seq, then);
    ++made_;
    if (!asked_before(key, basis))
      return;
    if (known == by_key_.end()) {
      known = by_key_.try_emplace(key, texts_.insert(texts_.begin(), Text{})).first;
      known->second->key = &known->first;
    } else {
      bytes_ -= known->second->bytes();
    }
    Text& text = *known->second;
    text.basis = std::move(basis);
    split(text, out.substr(from), object);
    bytes_ += text.bytes();
    return make_room(text);
  }
  texts_.splice(texts_.end(), texts_, known->second);
  const Text& text = *known->second;
  out += text.head;
  out.append(text.body.get(), text.from, text.size);
  out += text.tail;
}

bool ShownTexts::asked_before(const std::string& key, const Basis& basis) {
  std::uint64_t hash = std::hash<std::string>()(key);
  const auto stamp = [](const auto& record) { return record ? record->meta.seq : 0; };
  for (const Seq part : {basis.version, basis.shown_as, stamp(basis.pod.records.job), stamp(basis.pod.records.task)})
    hash = (hash ^ part) * 0x9e3779b97f4a7c15;
  const auto mark = static_cast<std::uint32_t>(hash);
  bool known = false;
  for (const std::size_t place : {(hash >> 32) % kDoorPlaces, (hash >> 46) % kDoorPlaces})
    known |= std::exchange(door_[place], mark) == mark;
  return known;
}

void ShownTexts::make_room(const Text& kept) {
  while (bytes_ > bytes_most_ && texts_.size() > 1) {
    auto coldest = texts_.begin();
    if (&*coldest == &kept)
      ++coldest;
    bytes_ -= coldest->bytes();
    by_key_.erase(*coldest->key);
    texts_.erase(coldest);
  }
}

// From the metadata that the envelope has no place for up to where a record adds something, it is the body's text.
void ShownTexts::split(Text& into, std::string text, const Object& object) {
  constexpr std::size_t kSample = 24;
  const std::string_view body = object.body.get();
  const std::size_t from = std::min(body.size(), kBodyStart.size());
  const std::size_t at = text.find(body.substr(from, kSample));
  into.body = {};
  into.from = into.size = 0;
  into.tail.clear();
  if (at != text.npos) {
    const auto differs = std::mismatch(body.begin() + static_cast<std::ptrdiff_t>(from), body.end(),
                                       text.begin() + static_cast<std::ptrdiff_t>(at), text.end());
    into.from = from;
    into.size = static_cast<std::size_t>(differs.first - body.begin()) - from;
    into.body = object.body;
    into.tail = text.substr(at + into.size);
    text.resize(at);
  }
  text.shrink_to_fit();
  into.head = std::move(text);
}

}  // namespace lockstep::kube
