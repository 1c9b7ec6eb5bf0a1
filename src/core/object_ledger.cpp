#include "core/object_ledger.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::uint64_t kEnvelopeBytes = 256;  // of an object, besides its words
constexpr std::uint64_t kSmallGrowth = 512;    // a mark, a time: always taken

template <class Pairs>
std::uint64_t bytes_of_pairs(const Pairs& pairs) {
  std::uint64_t bytes = 0;
  for (const auto& [key, value] : pairs) bytes += key.size() + value.size();
  return bytes;
}

std::uint64_t bytes_of(const Object& object) {
  std::uint64_t bytes = kEnvelopeBytes + object.body.size();
  if (object.meta.extra)
    bytes += bytes_of_pairs(object.meta.extra->labels) + bytes_of_pairs(object.meta.extra->annotations);
  return bytes;
}

bool is_being_deleted(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

std::string holder_words(const std::string& ns, const std::string& type) {
  if (ns.empty())
    return format("there are {} that", type);
  return type.empty() ? format("namespace {} has objects that", ns) : format("namespace {} has {} that", ns, type);
}

}  // namespace

void ObjectLedger::begin(ObjectShares shares) {
  shares_ = std::move(shares);
  taken_.clear();
  all_ = {};
}

ObjectLedger::Holder ObjectLedger::holder_of(const Object& object) const {
  const std::string& ns = object.meta.ns;
  return {ns, ns.empty() || shares_.apart.contains(object.type) ? object.type : std::string()};
}

const ObjectShare& ObjectLedger::share_of(const Holder& holder) const {
  const auto apart = shares_.apart.find(holder.second);
  return apart == shares_.apart.end() ? shares_.each : apart->second;
}

void ObjectLedger::count(const Object& object, bool there) {
  const Holder holder = holder_of(object);
  const auto at = taken_.try_emplace(holder).first;
  const std::uint64_t bytes = bytes_of(object);
  for (Taken* taken : {&at->second, &all_}) {
    if (!there)
      CHECK(taken->objects > 0 && taken->bytes >= bytes, "an object that was not counted goes");
    taken->objects += there ? 1 : -1;
    taken->bytes += there ? bytes : -bytes;
  }
  if (share_of(holder).newest_stay) {
    if (there)
      at->second.by_age.emplace(object.meta.uid, object.meta.name);
    else
      at->second.by_age.erase({object.meta.uid, object.meta.name});
  }
  if (at->second.objects == 0)
    taken_.erase(at);
}

void ObjectLedger::index(const Object* before, const Object* after) {
  // Most changes are of what is no text.
  if (before && after && before->body == after->body && before->meta.extra == after->meta.extra)
    return;
  if (before)
    count(*before, false);
  if (after)
    count(*after, true);
}

Result<void> ObjectLedger::check(const Object& object, const Object* before) const {
  const std::uint64_t now = bytes_of(object), was = before ? bytes_of(*before) : 0;
  if (before && (now <= was + kSmallGrowth || is_being_deleted(*before)))
    return {};
  const Holder holder = holder_of(object);
  const ObjectShare& share = share_of(holder);
  const auto at = taken_.find(holder);
  const Taken none, &taken = at == taken_.end() ? none : at->second;
  if (share.newest_stay && taken.objects > 0)
    return {};  // the oldest make room
  const auto free = [](std::uint64_t most, std::uint64_t used) { return most - std::min(most, used); };
  std::uint64_t objects_max = std::min(share.objects_max, free(shares_.all.objects_max, all_.objects)),
                bytes_max = std::min(share.bytes_max, free(shares_.all.bytes_max, all_.bytes));
  if (before)
    bytes_max += bytes_max / 8;
  const bool too_many = !before && taken.objects + 1 > objects_max;
  if (!too_many && taken.bytes + (now - was) <= bytes_max)
    return {};
  const std::string most = too_many ? format("number {} and may be {}", taken.objects, objects_max)
                                    : format("take {} KiB and may take {} KiB", taken.bytes >> 10, bytes_max >> 10);
  const bool crowded = objects_max < share.objects_max || bytes_max < share.bytes_max;
  return Error{Errc::kExhausted,
               format("{} {}{}: delete what is not needed, or ask an administrator of the cluster for a larger share",
                      holder_words(holder.first, holder.second), most,
                      crowded ? " (all together have used up most of the cluster's room)" : ""),
               std::string(kObjectShareField)};
}

std::optional<ObjectKey> ObjectLedger::oldest_beyond(const Object& newest) const {
  const Holder holder = holder_of(newest);
  const ObjectShare& share = share_of(holder);
  const auto at = taken_.find(holder);
  if (!share.newest_stay || at == taken_.end() || at->second.by_age.size() < 2)
    return std::nullopt;
  if (at->second.objects <= share.objects_max && at->second.bytes <= share.bytes_max)
    return std::nullopt;
  for (const auto& [uid, name] : at->second.by_age)
    if (name != newest.meta.name)
      return ObjectKey{newest.type, newest.meta.ns, name};
  return std::nullopt;
}

}  // namespace lockstep
