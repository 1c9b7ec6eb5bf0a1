#include "frontends/kube/store/object_history.h"

#include <algorithm>

#include "model/records.h"

namespace lockstep::kube {

namespace {

// What an entry holds that the tables do not.
std::size_t cost_of(const ObjectHistory::Entry& entry) { return 256 + (entry.before ? entry.before->body.size() : 0); }

}  // namespace

void ObjectHistory::begin(const Tables& tables) {
  began_ = tables.seq;
  counts_.clear();
  shows_.clear();
  for (const auto& [key, object] : tables.objects) {
    count(*object, 1);
    if (!object->shows.empty())
      shows_[object->meta.uid] = shown_records(tables, *object);
  }
}

void ObjectHistory::count(const Object& object, std::ptrdiff_t more) {
  auto& of_type = counts_[object.type];
  of_type[""] += static_cast<std::size_t>(more);
  if (const std::string& ns = object.meta.ns; !ns.empty())
    if (const auto at = of_type.try_emplace(ns).first; (at->second += static_cast<std::size_t>(more)) == 0)
      of_type.erase(at);
}

void ObjectHistory::change(const Tables& before, const Change& change) {
  const auto* record = std::get_if<Ref<Object>>(&change.record);
  if (!record)
    return;
  const Object& object = **record;
  const auto [at, fresh] = by_type_.try_emplace(object.type);
  Kept& kept = at->second;
  if (fresh)
    kept.from = began_;
  const auto known = before.objects.find({object.type, object.meta.ns, object.meta.name});
  if ((known == before.objects.end()) != change.removed)
    count(object, change.removed ? -1 : 1);
  Entry entry{
      change.seq, known == before.objects.end() ? nullptr : known->second, change.removed ? nullptr : *record, {}, {}};
  if (const auto was = shows_.find(object.meta.uid); was != shows_.end()) {
    entry.before_shows = std::move(was->second);
    shows_.erase(was);
  }
  // An object is renewed behind what it shows: these stand in the tables already.
  if (entry.after && !object.shows.empty())
    shows_[object.meta.uid] = entry.after_shows = shown_records(before, object);
  kept.entries.push_back(std::move(entry));
  bytes_ += cost_of(kept.entries.back());
  if (kept.entries.size() > most_.changes)
    forget_oldest(kept);
  while (bytes_ > most_.bytes) {
    const auto heaviest =
        std::ranges::max_element(by_type_, {}, [](const auto& one) { return one.second.entries.size(); });
    if (heaviest->second.entries.empty())
      break;
    forget_oldest(heaviest->second);
  }
}

void ObjectHistory::forget_oldest(Kept& kept) {
  kept.from = kept.entries.front().seq;
  bytes_ -= cost_of(kept.entries.front());
  kept.entries.pop_front();
}

std::optional<ObjectHistory::Since> ObjectHistory::since(std::string_view type, Seq after) const {
  static const std::deque<Entry> none;
  const auto at = by_type_.find(type);
  if (after < (at == by_type_.end() ? began_ : at->second.from))
    return std::nullopt;
  if (at == by_type_.end())
    return Since{&none, 0};
  const auto& entries = at->second.entries;
  const auto first = std::ranges::upper_bound(entries, after, {}, &Entry::seq);
  return Since{&entries, static_cast<std::size_t>(first - entries.begin())};
}

// then: how those were at that time that have changed since.
std::size_t ObjectHistory::count_at(const Tables& tables, std::string_view type, std::string_view ns,
                                    const std::map<ObjectKey, Ref<Object>>& then) const {
  std::size_t count = 0;
  if (const auto of_type = counts_.find(type); of_type != counts_.end())
    if (const auto at = of_type->second.find(ns); at != of_type->second.end())
      count = at->second;
  for (const auto& [key, object] : then)
    if (ns.empty() || std::get<1>(key) == ns)
      count += static_cast<std::size_t>(object != nullptr) - tables.objects.count(key);
  return count;
}

std::optional<ObjectHistory::Page> ObjectHistory::page(const Tables& tables, std::string_view type, std::string_view ns,
                                                       Seq at, const ObjectKey* after, std::size_t most,
                                                       const Wanted& wanted, bool count_left) const {
  const auto changed = since(type, at);
  if (!changed)
    return std::nullopt;
  // What is otherwise now than it was then: the first change of each since tells how it was.
  std::map<ObjectKey, Ref<Object>> then;
  for (std::size_t i = changed->from; i < changed->entries->size(); ++i) {
    const Entry& entry = (*changed->entries)[i];
    const Object& object = entry.before ? *entry.before : *entry.after;
    then.try_emplace({object.type, object.meta.ns, object.meta.name}, entry.before);
  }
  const ObjectKey first = after ? *after : ObjectKey{std::string(type), std::string(ns), ""};
  const auto inside = [&](const ObjectKey& key) {
    return std::get<0>(key) == type && (ns.empty() || std::get<1>(key) == ns);
  };
  auto now_at = after ? tables.objects.upper_bound(first) : tables.objects.lower_bound(first);
  auto then_at = after ? then.upper_bound(first) : then.lower_bound(first);
  Page page;
  const ObjectKey* last = nullptr;
  const bool counted = count_left && !after;  // the whole is known, what is in it is subtracted
  if (counted)
    page.left = count_at(tables, type, ns, then);
  for (;;) {
    const bool has_now = now_at != tables.objects.end() && inside(now_at->first);
    const bool has_then = then_at != then.end() && inside(then_at->first);
    if (!has_now && !has_then)
      return page;
    const bool take_then = has_then && (!has_now || then_at->first <= now_at->first);
    const ObjectKey& key = take_then ? then_at->first : now_at->first;
    const Ref<Object> object = take_then ? then_at->second : now_at->second;
    if (object && wanted(*object)) {
      if (page.objects.size() < most) {
        page.objects.push_back(object);
        last = &key;
        page.left -= counted;
      } else {
        page.last = *last;
        page.left += !counted;
        if (!count_left || counted)
          return page;
      }
    }
    if (take_then && has_now && then_at->first == now_at->first)
      ++now_at;
    take_then ? void(++then_at) : void(++now_at);
  }
}

}  // namespace lockstep::kube
