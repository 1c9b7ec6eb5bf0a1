#include "frontends/kube/machinery/strategic_patch.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

constexpr std::string_view kDirective = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kOrderPrefix = "$setElementOrder/";
constexpr std::string_view kDeletePrefix = "$deleteFromPrimitiveList/";

using Failure = std::optional<Status>;

Failure bad_shape(std::string_view what) { return Status::bad_request(format("invalid patch format of {}", what)); }

const Schema* child_of(const Schema* schema, std::string_view name) {
  if (schema == nullptr)
    return nullptr;
  if (schema->type == Schema::Type::kMap)
    return schema->element;
  const Field* field = schema->field(name);
  return field == nullptr ? nullptr : field->schema;
}

// What an element is known by: its merge key's value, or itself where it is no object. Nullopt: the key is missing.
std::optional<std::string> identity(const json::value& element, const std::string& key) {
  if (key.empty())
    return json::serialize(element);
  const json::value* value = member(element, key);
  return value == nullptr ? std::nullopt : std::optional(json::serialize(*value));
}

Status no_key(const json::value& element, const std::string& key) {
  return Status::bad_request(
      format("map: {} does not contain declared merge key: {}", json::serialize(element).substr(0, 200), key));
}

// Positions by identity; of equal ones the first.
using Positions = std::unordered_map<std::string, std::size_t>;
Failure positions_in(const json::array& list, const std::string& key, Positions& out) {
  for (std::size_t at = 0; at < list.size(); ++at) {
    auto name = identity(list[at], key);
    if (!name)
      return no_key(list[at], key);
    out.try_emplace(std::move(*name), at);
  }
  return {};
}

// Elements that only say `$patch` go, and so do directives inside of what is taken over as it is.
bool strip_directives(json::value& value) {
  if (json::object* object = value.if_object()) {
    if (object->contains(kDirective))
      return false;
    std::unordered_set<std::string> gone;
    for (auto& entry : *object)
      if (!strip_directives(entry.value()))
        gone.insert(std::string(entry.key()));
    drop_members(*object, [&](std::string_view key, const json::value&) { return gone.contains(std::string(key)); });
  } else if (json::array* list = value.if_array()) {
    json::array kept(list->storage());
    for (json::value& each : *list)
      if (strip_directives(each))
        kept.push_back(std::move(each));
    *list = std::move(kept);
  }
  return true;
}

void drop_nulls(json::value& value) {
  if (json::object* object = value.if_object()) {
    drop_members(*object, [](std::string_view, const json::value& each) { return each.is_null(); });
    for (auto& entry : *object) drop_nulls(entry.value());
  } else if (json::array* list = value.if_array()) {
    for (json::value& each : *list) drop_nulls(each);
  }
}

class StrategicMerge {
 public:
  Failure merge_object(json::object& original, json::object& patch, const Schema* schema);

 private:
  Failure retain_keys(json::object& original, json::object& patch);
  Failure merge_ordered_lists(json::object& original, json::object& patch, const Schema* schema);
  Failure merge_list(json::array& original, json::array& patch, const Schema* schema);
  Failure merge_keyed(json::array& original, json::array& patch, const Schema* schema);
  Failure order(json::array& list, const json::array& wanted, const json::array& before, const std::string& key);
};

Failure StrategicMerge::retain_keys(json::object& original, json::object& patch) {
  const json::value* directive = patch.if_contains(kRetainKeys);
  if (directive == nullptr)
    return {};
  const json::array* list = directive->if_array();
  if (list == nullptr)
    return bad_shape("retainKeys");
  std::unordered_set<std::string> kept;
  for (const json::value& each : *list) kept.insert(std::string(text_of(each)));
  for (const auto& entry : patch) {
    const std::string_view key = entry.key();
    if (key != kRetainKeys && !entry.value().is_null() && !key.starts_with(kDeletePrefix) &&
        !key.starts_with(kOrderPrefix) && !kept.contains(std::string(key)))
      return bad_shape("retainKeys");
  }
  drop_members(original, [&](std::string_view key, const json::value&) { return !kept.contains(std::string(key)); });
  drop_members(patch, [](std::string_view key, const json::value&) { return key == kRetainKeys; });
  return {};
}

// The elements that `wanted` names in its order, the others in the order they had, woven by where they stood before.
Failure StrategicMerge::order(json::array& list, const json::array& wanted, const json::array& before,
                              const std::string& key) {
  Positions in_wanted, in_before;
  if (auto failure = positions_in(wanted, key, in_wanted))
    return failure;
  if (auto failure = positions_in(before, key, in_before))
    return failure;
  struct Item {
    std::size_t index, rank;
    std::optional<std::size_t> before;
  };
  std::vector<Item> named, others;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const auto name = identity(list[at], key);
    if (!name)
      return no_key(list[at], key);
    const auto rank = in_wanted.find(*name), old = in_before.find(*name);
    const auto stood = old == in_before.end() ? std::nullopt : std::optional(old->second);
    if (rank != in_wanted.end())
      named.push_back({at, rank->second, stood});
    else
      others.push_back({at, stood.value_or(list.size() + at), stood});
  }
  std::ranges::stable_sort(named, {}, &Item::rank);
  std::ranges::stable_sort(others, {}, &Item::rank);
  json::array out(list.storage());
  out.reserve(list.size());
  std::size_t i = 0, j = 0;
  while (i < others.size() || j < named.size()) {
    const bool other_first = j == named.size() || (i < others.size() && others[i].before && named[j].before &&
                                                   *others[i].before < *named[j].before);
    out.push_back(std::move(list[other_first ? others[i++].index : named[j++].index]));
  }
  list = std::move(out);
  return {};
}

Failure StrategicMerge::merge_ordered_lists(json::object& original, json::object& patch, const Schema* schema) {
  std::unordered_set<std::string> done;
  for (auto& entry : patch) {
    const std::string_view directive = entry.key();
    if (!directive.starts_with(kOrderPrefix))
      continue;
    const std::string name(directive.substr(kOrderPrefix.size()));
    json::array* wanted = entry.value().if_array();
    if (wanted == nullptr)
      return bad_shape("setElementOrder list");
    done.insert(std::string(directive));
    json::value* old = original.if_contains(name);
    json::value* change = patch.if_contains(name);
    if ((old != nullptr && !old->is_array()) || (change != nullptr && !change->is_array()))
      return Status::bad_request(format("{} is to be merged as a list, and is none", name));
    const Schema* list_schema = child_of(schema, name);
    const std::string key = list_schema == nullptr ? std::string() : list_schema->patch_key;
    if (change != nullptr) {
      // What the patch brings must be named by the order, and stand in it.
      Positions ranks;
      if (auto failure = positions_in(*wanted, key, ranks))
        return failure;
      std::size_t last = 0;
      for (const json::value& element : change->get_array()) {
        if (element.is_object() && element.get_object().contains(kDirective))
          continue;
        const auto id = identity(element, key);
        const auto rank = id ? ranks.find(*id) : ranks.end();
        if (rank == ranks.end() || rank->second < last)
          return Status::bad_request(format("The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                                            json::serialize(*change).substr(0, 500), kOrderPrefix.substr(0, 16),
                                            json::serialize(*wanted).substr(0, 500)));
        last = rank->second;
      }
    }
    if (old == nullptr && change == nullptr)
      continue;
    const json::array before = old == nullptr ? json::array() : old->get_array();
    json::array merged = before;
    if (old == nullptr) {
      strip_directives(*change);
      merged = std::move(change->get_array());
    } else if (change != nullptr) {
      if (auto failure = merge_list(merged, change->get_array(), list_schema))
        return failure;
    }
    if (auto failure = order(merged, *wanted, before, key))
      return failure;
    original[name] = std::move(merged);
    if (change != nullptr)
      done.insert(name);
  }
  drop_members(patch, [&](std::string_view key, const json::value&) { return done.contains(std::string(key)); });
  return {};
}

Failure StrategicMerge::merge_keyed(json::array& original, json::array& patch, const Schema* schema) {
  const std::string& key = schema->patch_key;
  std::unordered_set<std::string> deleted;
  bool replaces = false;
  json::array changes(patch.storage());
  for (json::value& each : patch) {
    const json::value* directive = each.get_object().if_contains(kDirective);
    if (directive == nullptr) {
      changes.push_back(std::move(each));
    } else if (text_of(*directive) == "delete") {
      auto name = identity(each, key);
      if (!name)
        return no_key(each, key);
      deleted.insert(std::move(*name));
    } else if (text_of(*directive) == "replace") {
      replaces = true;
    } else if (text_of(*directive) == "merge") {
      return Status::bad_request("merging lists cannot yet be specified in the patch");
    } else {
      return Status::bad_request(format("unknown patch type: {} in map", json::serialize(*directive)));
    }
  }
  if (replaces) {
    original = std::move(changes);
    patch.clear();
    return {};
  }
  if (!deleted.empty()) {
    json::array kept(original.storage());
    for (json::value& each : original) {
      const auto name = identity(each, key);
      if (!name || !deleted.contains(*name))
        kept.push_back(std::move(each));
    }
    original = std::move(kept);
  }
  Positions at;
  for (std::size_t index = 0; index < original.size(); ++index)
    if (auto name = identity(original[index], key))
      at.try_emplace(std::move(*name), index);
  for (const json::value& each : changes) {
    const auto name = identity(each, key);
    if (!name)
      return no_key(each, key);
    const auto found = at.find(*name);
    if (found == at.end()) {
      at.emplace(*name, original.size());
      original.push_back(each);
      continue;
    }
    json::object change = each.get_object();
    if (auto failure = merge_object(original[found->second].get_object(), change, schema->element))
      return failure;
  }
  patch = std::move(changes);
  return {};
}

Failure StrategicMerge::merge_list(json::array& original, json::array& patch, const Schema* schema) {
  if (schema == nullptr || !schema->patch_merge) {
    original = std::move(patch);
    return {};
  }
  if (original.empty() && patch.empty())
    return {};
  const auto kind = original.empty() ? patch.front().kind() : original.front().kind();
  const auto other_kind = [&](const json::value& each) { return each.kind() != kind; };
  if (kind == json::kind::array) {
    Status status = Status::unprocessable("lists of lists are not supported");
    return status;
  }
  if (std::ranges::any_of(original, other_kind) || std::ranges::any_of(patch, other_kind))
    return Status::bad_request("list element types are not identical");
  const json::array before = original;
  if (kind == json::kind::object) {
    if (schema->patch_key.empty())
      return Status::bad_request("cannot merge lists without merge key for " + schema->name);
    if (auto failure = merge_keyed(original, patch, schema))
      return failure;
    return order(original, patch, before, schema->patch_key);
  }
  std::unordered_set<std::string> seen;
  json::array merged(original.storage());
  for (const json::array* list : {&original, &patch})
    for (const json::value& each : *list)
      if (seen.insert(json::serialize(each)).second)
        merged.push_back(each);
  original = std::move(merged);
  return order(original, patch, before, {});
}

Failure StrategicMerge::merge_object(json::object& original, json::object& patch, const Schema* schema) {
  if (const json::value* directive = patch.if_contains(kDirective)) {
    if (text_of(*directive) == "replace") {
      drop_members(patch, [](std::string_view key, const json::value&) { return key == kDirective; });
      original = patch;
      return {};
    }
    if (text_of(*directive) == "delete") {
      original.clear();
      return {};
    }
    if (text_of(*directive) != "merge")
      return Status::bad_request(format("unknown patch type: {} in map", json::serialize(*directive)));
    drop_members(patch, [](std::string_view key, const json::value&) { return key == kDirective; });
  }
  if (auto failure = retain_keys(original, patch))
    return failure;
  if (auto failure = merge_ordered_lists(original, patch, schema))
    return failure;
  std::unordered_set<std::string> gone;
  for (auto& entry : patch) {
    std::string_view key = entry.key();
    json::value& change = entry.value();
    const bool deletes = key.starts_with(kDeletePrefix);
    if (deletes) {
      key.remove_prefix(kDeletePrefix.size());
      if (!change.is_array())
        return bad_shape("primitive list");
      json::value* old = original.if_contains(key);
      if (old == nullptr || !old->is_array())
        continue;
      std::unordered_set<std::string> unwanted;
      for (const json::value& each : change.get_array()) unwanted.insert(json::serialize(each));
      json::array kept(original.storage());
      for (json::value& each : old->get_array())
        if (!unwanted.contains(json::serialize(each)))
          kept.push_back(std::move(each));
      *old = std::move(kept);
      continue;
    }
    if (change.is_null()) {
      gone.insert(std::string(key));
      continue;
    }
    json::value* old = original.if_contains(key);
    if (old == nullptr || old->kind() != change.kind() || !change.is_structured()) {
      drop_nulls(change);
      if (strip_directives(change))
        original[key] = std::move(change);
      else
        gone.insert(std::string(key));
      continue;
    }
    const Schema* below = child_of(schema, key);
    Failure failure = change.is_object() ? merge_object(old->get_object(), change.get_object(), below)
                                         : merge_list(old->get_array(), change.get_array(), below);
    if (failure)
      return failure;
  }
  drop_members(original, [&](std::string_view key, const json::value&) { return gone.contains(std::string(key)); });
  return {};
}

}  // namespace

Answered<json::value> apply_strategic_patch(json::value object, json::value patch, const Schema& schema) {
  if (!object.is_object() || !patch.is_object())
    return Status::bad_request("a strategic merge patch is an object, and so is what it changes");
  if (auto failure = StrategicMerge().merge_object(object.get_object(), patch.get_object(), &schema))
    return std::move(*failure);
  return object;
}

}  // namespace lockstep::kube
