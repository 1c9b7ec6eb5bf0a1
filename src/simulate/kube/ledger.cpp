#include "simulate/kube/ledger.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::sim {

namespace {

namespace json = boost::json;
using kube::part;
using kube::text_in;

ObjectKey key_of_object(const Object& object) { return {object.type, object.meta.ns, object.meta.name}; }

// Pending, Running, ended: a pod never goes back.
int rank_of(std::string_view phase) {
  return phase == "Running" ? 1 : phase == "Succeeded" || phase == "Failed" ? 2 : 0;
}

}  // namespace

ObjectKey key_told(const std::string& type, const json::object& object) {
  const json::value& metadata = part(object, "metadata");
  return {type, text_in(metadata, "namespace"), text_in(metadata, "name")};
}

Seq version_told(const json::object& object) {
  return static_cast<Seq>(parse_uint(text_in(part(object, "metadata"), "resourceVersion")).value_or(0));
}

void Ledger::saw(std::span<const Change> changes) {
  for (const Change& change : changes) {
    const auto* ref = std::get_if<Ref<Object>>(&change.record);
    Ref<Object> before;
    if (ref)
      if (const auto known = tables_.objects.find(key_of_object(**ref)); known != tables_.objects.end())
        before = known->second;
    tables_.apply(change);
    if (!ref)
      continue;
    auto& entries = by_type_[(*ref)->type];
    entries.push_back({change.seq, before, change.removed ? nullptr : *ref});
    if (on_entry)
      on_entry(entries.back());
  }
}

const std::vector<Ledger::Entry>& Ledger::of(const std::string& type) const {
  static const std::vector<Entry> none;
  const auto at = by_type_.find(type);
  return at == by_type_.end() ? none : at->second;
}

std::map<ObjectKey, Seq> Ledger::list_at(const std::string& type, const Keeps& keeps, Seq at) const {
  std::map<ObjectKey, Seq> out;
  for (const Entry& entry : of(type)) {
    if (entry.seq > at)
      break;
    const ObjectKey key = key_of_object(entry.object());
    if (entry.after && keeps(*entry.after))
      out[key] = entry.seq;
    else
      out.erase(key);
  }
  return out;
}

Seq Ledger::version_at(const ObjectKey& key, Seq at) const {
  Seq out = 0;
  for (const Entry& entry : of(std::get<0>(key))) {
    if (entry.seq > at)
      break;
    if (key_of_object(entry.object()) == key)
      out = entry.after ? entry.seq : 0;
  }
  return out;
}

bool Ledger::went_since(const ObjectKey& key, Seq after) const {
  return std::ranges::any_of(of(std::get<0>(key)), [&](const Entry& entry) {
    return entry.seq > after && !entry.after && key_of_object(*entry.before) == key;
  });
}

const Ledger::Entry* Ledger::entry_at(const std::string& type, Seq seq) const {
  const auto& entries = of(type);
  const auto at = std::ranges::lower_bound(entries, seq, {}, &Entry::seq);
  return at == entries.end() || at->seq != seq ? nullptr : &*at;
}

void Ledger::check_told(const std::string& type, const json::object& object, bool removed) {
  const ObjectKey key = key_told(type, object);
  const Seq version = version_told(object);
  const Entry* entry = entry_at(type, version);
  if (!entry || key_of_object(entry->object()) != key || (entry->after == nullptr) != removed)
    return verdict_.fail(
        format("a client was told of {} {} in version {}, which is not durable", type, std::get<2>(key), version));
  tell(version);
  const Object& record = removed ? *entry->before : *entry->after;
  if (kube::uid_text(record.meta.uid) != text_in(part(object, "metadata"), "uid"))
    verdict_.fail(format("{} {} was told with another uid than it has", type, std::get<2>(key)));
  if (type == "pods")
    check_pod(object, record);
}

// What a pod's status says has happened: processes ran, its job has ended.
void Ledger::check_pod(const json::object& pod, const Object& record) {
  const std::string phase = text_in(part(pod, "status"), "phase");
  const std::string& name = record.meta.name;
  JobId job;
  for (const Shown& shown : record.shows)
    if (shown.kind == Kind::kJob)
      job = shown.job;
  if (phase == "Running" && job && !processes_.ran(job))
    verdict_.fail(format("pod {} is told to be running, and nothing of it ever ran", name));
  auto& [worst, rank] = phases_[record.meta.uid];
  if (rank_of(phase) == 2 && rank == 2 && worst != phase)
    verdict_.fail(format("pod {} was told to be {} and is told to be {}", name, worst, phase));
  if (rank_of(phase) > rank) {
    worst = phase;
    rank = rank_of(phase);
  }
}

}  // namespace lockstep::sim
