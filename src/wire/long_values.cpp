#include "wire/long_values.h"

#include <algorithm>

namespace lockstep {

LongValues::LongValues(Hash hash, Read read, std::size_t at_least)
    : hash_(std::move(hash)), read_(std::move(read)), at_least_(at_least) {}

void LongValues::settle(std::uint64_t index) {
  for (const std::string& id : touched_) {
    Known& known = known_.at(id);
    known.named = std::max(known.named, index);
    known.stored = true;
  }
  touched_.clear();
  fresh_.clear();
}

void LongValues::withdraw() {
  for (const auto& [id, text] : fresh_) known_.erase(id);
  std::erase_if(places_, [&](const auto& place) { return !known_.contains(place.second.id); });
  touched_.clear();
  fresh_.clear();
}

std::unique_ptr<LongValues> LongValues::frozen() const {
  auto out = std::make_unique<LongValues>(nullptr, nullptr);
  for (const auto& [address, place] : places_)
    if (known_.at(place.id).stored)
      out->places_.emplace(address, place);
  return out;
}

void LongValues::settle_snapshot(const LongValues& frozen, std::uint64_t index) {
  for (const std::string& id : frozen.touched_)
    if (const auto at = known_.find(id); at != known_.end())
      at->second.named = std::max(at->second.named, index + 1);
}

void LongValues::sweep(const std::unordered_set<const void*>& held, std::uint64_t trimmed) {
  std::unordered_set<std::string> in_use;
  for (const auto& [address, place] : places_)
    if (held.contains(address))
      in_use.insert(place.id);
  std::erase_if(known_,
                [&](const auto& known) { return known.second.named <= trimmed && !in_use.contains(known.first); });
  // A value that nobody holds need not stay in memory for the sake of an entry that names it.
  std::erase_if(places_, [&](const auto& place) { return !held.contains(place.first); });
  for (auto& [id, known] : known_)
    if (!in_use.contains(id))
      known.holders.clear();
}

std::string_view LongValues::id_of(const void* value) {
  if (places_.empty())
    return {};
  const auto at = places_.find(value);
  if (at == places_.end())
    return {};
  touched_.insert(at->second.id);
  return at->second.id;
}

std::string_view LongValues::take(const void* value, Type type, const std::function<Holder()>& hold,
                                  std::string_view text) {
  if (!hash_ || text.size() < at_least_)
    return {};
  const std::string id = hash_(text);
  const auto [known, fresh] = known_.try_emplace(id);
  if (fresh)
    fresh_.emplace_back(id, text);
  touched_.insert(id);
  const Holder holder = known->second.holders[type] = hold();
  return places_.insert_or_assign(value, Place{holder, id}).first->second.id;
}

LongValues::Holder LongValues::find(const std::string& id, Type type) {
  const auto at = known_.find(id);
  if (at == known_.end())
    return nullptr;
  touched_.insert(id);
  const auto holder = at->second.holders.find(type);
  return holder == at->second.holders.end() ? nullptr : holder->second;
}

void LongValues::found(const std::string& id, Type type, const void* value, Holder holder) {
  known_[id].holders[type] = holder;
  touched_.insert(id);
  places_.insert_or_assign(value, Place{std::move(holder), id});
}

Result<std::string> LongValues::text(const std::string& id) const {
  if (!read_)
    return Error{Errc::kCorrupt, "a value lies apart, and nobody says where", {}};
  return read_(id);
}

}  // namespace lockstep
