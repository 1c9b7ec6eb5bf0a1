#include "frontends/kube/machinery/typed_merge.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kFaultsMax = 20;

// How a value is treated: which follows from the schema, or where that takes anything, from the value.
enum class Atom : unsigned char { kScalar, kList, kMap };

struct AnySchema {
  Schema any;
  AnySchema() {
    any.type = Schema::Type::kAny;
    any.keep_unknown = true;
  }
};
const Schema& anything() {
  static const AnySchema schema;  // what is below a value without a schema
  return schema.any;
}

Atom atom_of(const Schema& schema, const json::value* value) {
  switch (schema.type) {
    case Schema::Type::kAny:
      if (value == nullptr || value->is_null() || value->is_object())
        return Atom::kMap;
      return value->is_array() ? Atom::kList : Atom::kScalar;
    case Schema::Type::kObject:
    case Schema::Type::kMap: return Atom::kMap;
    case Schema::Type::kList: return Atom::kList;
    default: return Atom::kScalar;
  }
}

json::value nothing_in(const Schema& schema) {
  switch (schema.type) {
    case Schema::Type::kString: return "";
    case Schema::Type::kInteger: return 0;
    default: return nullptr;
  }
}

bool atomic_map(const Schema& schema) { return schema.atomic; }
bool atomic_list(const Schema& schema) {
  return schema.type != Schema::Type::kList || schema.list == ListKind::kAtomic;
}
bool named(const Schema& schema, std::string_view key) {
  return schema.type == Schema::Type::kObject && schema.field(key) != nullptr;
}

const Schema& below(const Schema& schema, std::string_view key) {
  if (schema.type == Schema::Type::kMap)
    return schema.element == nullptr ? anything() : *schema.element;
  const Field* field = schema.type == Schema::Type::kObject ? schema.field(key) : nullptr;
  return field == nullptr || field->schema == nullptr ? anything() : *field->schema;
}
const Schema& element_of(const Schema& schema) { return schema.element == nullptr ? anything() : *schema.element; }

const json::object* map_in(const json::value* value) { return value == nullptr ? nullptr : value->if_object(); }
const json::array* list_in(const json::value* value) { return value == nullptr ? nullptr : value->if_array(); }

// Nullopt: the element has no identity, and `fault` says why.
std::optional<std::string> list_element(const Schema& list, const json::value& value, std::string& fault) {
  if (list.list == ListKind::kSet) {
    if (!value.is_structured() && !value.is_null())
      return "v:" + canonical_text(value);
    fault = value.is_null()     ? "associative list without keys has an element that's an explicit null"
            : value.is_object() ? "associative list without keys has an element that's a map type"
                                : "not supported: associative list with lists as elements";
    return std::nullopt;
  }
  if (!value.is_object()) {
    fault = value.is_null() ? "associative list with keys may not have a null element"
                            : "associative list with keys may not have non-map elements";
    return std::nullopt;
  }
  json::object key;
  for (const std::string& name : list.keys) {
    if (const json::value* own = value.get_object().if_contains(name)) {
      key[name] = *own;
      continue;
    }
    const Field* field = element_of(list).field(name);
    if (field != nullptr && field->standard)
      key[name] = *field->standard;
    else if (field != nullptr && field->number != 0 &&
             !field->pointer)  // of a built-in kind: there, if only as nothing
      if (json::value nothing = nothing_in(*field->schema); !nothing.is_null())
        key[name] = std::move(nothing);
  }
  if (key.empty()) {
    fault = format(
        "associative list with keys has an element that omits all key fields [\"{}\"] (and doesn't have "
        "default values for any key fields)",
        join(list.keys, "\" \""));
    return std::nullopt;
  }
  return "k:" + canonical_text(key);
}

// Elements that have no identity are passed over: they were refused, or stood in the object before.
struct Indexed {
  std::vector<std::pair<std::string, const json::value*>> elements;
  std::unordered_map<std::string, std::vector<const json::value*>> by_name;
};
Indexed index_list(const Schema& schema, const json::array* list) {
  Indexed out;
  std::string fault;
  if (list != nullptr)
    for (const json::value& each : *list)
      if (auto name = list_element(schema, each, fault)) {
        out.by_name[*name].push_back(&each);
        out.elements.emplace_back(std::move(*name), &each);
      }
  return out;
}

class FaultWalk {
 public:
  explicit FaultWalk(Duplicates duplicates) : duplicates_(duplicates) {}

  void walk(const json::value& value, const Schema& schema, const std::string& path) {
    if (value.is_null() || schema.type == Schema::Type::kAny)
      return;
    switch (atom_of(schema, &value)) {
      case Atom::kMap: return walk_map(value, schema, path);
      case Atom::kList: return walk_list(value, schema, path);
      case Atom::kScalar: return walk_scalar(value, schema, path);
    }
  }
  std::vector<std::string> faults;

 private:
  void say(const std::string& path, std::string_view fault) {
    if (faults.size() < kFaultsMax)
      faults.push_back(path.empty() ? std::string(fault) : format("{}: {}", path, fault));
  }

  void walk_map(const json::value& value, const Schema& schema, const std::string& path) {
    if (!value.is_object())
      return say(path, format("expected map, got {}", canonical_text(value).substr(0, 100)));
    for (const auto& entry : value.get_object()) {
      const std::string here = path + "." + std::string(entry.key());
      if (schema.type == Schema::Type::kObject && !schema.keep_unknown && schema.field(entry.key()) == nullptr)
        say(here, "field not declared in schema");
      else
        walk(entry.value(), below(schema, entry.key()), here);
    }
  }

  void walk_list(const json::value& value, const Schema& schema, const std::string& path) {
    if (!value.is_array())
      return say(path, format("expected list, got {}", canonical_text(value).substr(0, 100)));
    std::unordered_set<std::string> seen;
    std::size_t index = 0;
    for (const json::value& each : value.get_array()) {
      std::string here = format("{}[{}]", path, index);
      if (!atomic_list(schema)) {
        std::string fault;
        const auto name = list_element(schema, each, fault);
        if (!name) {
          say(path, format("element {}: {}", index, fault));
        } else {
          here = path + path_text({*name});
          if (!seen.insert(*name).second && duplicates_ == Duplicates::kRefused)
            say(path, format("duplicate entries for key {}", path_text({*name})));
        }
      }
      walk(each, element_of(schema), here);
      ++index;
    }
  }

  void walk_scalar(const json::value& value, const Schema& schema, const std::string& path) {
    using Type = Schema::Type;
    const auto expected = [&](std::string_view what, bool is) {
      if (!is)
        say(path, format("expected {}, got {}", what, canonical_text(value).substr(0, 100)));
    };
    switch (schema.type) {
      case Type::kBoolean: return expected("boolean", value.is_bool());
      case Type::kInteger:
      case Type::kNumber: return expected("numeric (int or float)", is_number(value));
      case Type::kString: return expected("string", value.is_string());
      default: return expected("a scalar", !value.is_structured());
    }
  }

  Duplicates duplicates_;
};

void collect(const json::value& value, const Schema& schema, FieldSet& set) {
  switch (atom_of(schema, &value)) {
    case Atom::kScalar: set.member = true; return;
    case Atom::kList: {
      if (atomic_list(schema)) {
        set.member = true;
        return;
      }
      for (const auto& [name, values] : index_list(schema, value.if_array()).by_name) {
        FieldSet& child = set.at(name);
        child.member = true;
        if (values.size() == 1)  // of doubled elements only the element itself is owned
          collect(*values.front(), element_of(schema), child);
        child.member = true;
      }
      return;
    }
    case Atom::kMap: {
      if (atomic_map(schema)) {
        set.member = true;
        return;
      }
      if (const json::object* object = value.if_object())
        for (const auto& entry : *object) {
          FieldSet child;
          collect(entry.value(), below(schema, entry.key()), child);
          const bool bare =
              entry.value().is_null() || (entry.value().is_object() && entry.value().get_object().empty());
          child.member = child.member || bare || !named(schema, entry.key());
          if (!child.empty())
            set.below.insert_or_assign(field_element(entry.key()), std::move(child));
        }
      return;
    }
  }
}

std::optional<json::value> merge(const json::value* live, const json::value* config, const Schema& schema);

std::optional<json::value> keep_config(const json::value* live, const json::value* config) {
  return config != nullptr ? std::optional(*config) : std::optional(*live);
}

std::optional<json::value> merge_lists(const Schema& schema, const json::array* live, const json::array* config) {
  const Indexed left = index_list(schema, live), right = index_list(schema, config);
  json::array out;
  const auto only = [](const Indexed& list, const std::string& name) -> const json::value* {
    const auto found = list.by_name.find(name);
    return found == list.by_name.end() || found->second.size() > 1 ? nullptr : found->second.front();
  };
  const auto add = [&](const json::value* mine, const json::value* theirs) {
    if (auto merged = merge(mine, theirs, element_of(schema)))
      out.push_back(std::move(*merged));
  };
  std::vector<const std::string*> shared;
  for (const auto& [name, value] : right.elements)
    if (left.by_name.contains(name))
      shared.push_back(&name);
  std::size_t next_shared = 0;
  std::unordered_set<std::string> taken;
  std::size_t l = 0, r = 0;
  while (l < left.elements.size() || r < right.elements.size()) {
    const bool both = l < left.elements.size() && r < right.elements.size();
    if (both) {
      const std::string& name = left.elements[l].first;
      if (name == right.elements[r].first) {
        taken.insert(name);
        add(only(left, name), right.elements[r].second);
        ++l;
        ++r;
        ++next_shared;
        continue;
      }
      if (right.by_name.contains(name) && next_shared < shared.size() && *shared[next_shared] != name) {
        ++l;  // shared, but not the one whose turn it is
        continue;
      }
    }
    if (l < left.elements.size()) {
      const auto& [name, value] = left.elements[l];
      if (!right.by_name.contains(name)) {
        add(value, nullptr);
        ++l;
        continue;
      }
      if (taken.contains(name))
        ++l;
      else if (r == right.elements.size())
        ++l;
    }
    if (r < right.elements.size()) {
      const std::string& name = right.elements[r].first;
      taken.insert(name);
      add(only(left, name), right.elements[r].second);
      ++r;
      if (next_shared < shared.size() && *shared[next_shared] == name)
        ++next_shared;
    }
  }
  return out.empty() ? std::nullopt : std::optional<json::value>(std::move(out));
}

std::optional<json::value> merge(const json::value* live, const json::value* config, const Schema& schema) {
  switch (atom_of(schema, config != nullptr ? config : live)) {
    case Atom::kScalar: return keep_config(live, config);
    case Atom::kList: {
      const json::array *left = list_in(live), *right = list_in(config);
      const bool bare = (left == nullptr || left->empty()) && (right == nullptr || right->empty());
      return atomic_list(schema) || bare ? keep_config(live, config) : merge_lists(schema, left, right);
    }
    case Atom::kMap: break;
  }
  const json::object *left = map_in(live), *right = map_in(config);
  if (atomic_map(schema) || ((left == nullptr || left->empty()) && (right == nullptr || right->empty())))
    return keep_config(live, config);
  json::object out;
  if (left != nullptr)
    for (const auto& entry : *left) {
      const json::value* other = right == nullptr ? nullptr : right->if_contains(entry.key());
      if (auto merged = merge(&entry.value(), other, below(schema, entry.key())))
        out[entry.key()] = std::move(*merged);
    }
  if (right != nullptr)
    for (const auto& entry : *right)
      if (left == nullptr || !left->contains(entry.key()))
        if (auto merged = merge(nullptr, &entry.value(), below(schema, entry.key())))
          out[entry.key()] = std::move(*merged);
  return out.empty() ? std::nullopt : std::optional<json::value>(std::move(out));
}

// Walks two values side by side and notes what differs under the path.
class CompareWalk {
 public:
  void walk(const json::value* before, const json::value* after, const Schema& schema) {
    const Atom left = atom_of(schema, before), right = atom_of(schema, after);
    bool leaf = false;
    if (before != nullptr && after != nullptr && left != right) {
      handle(left, before, after, schema);
      leaf = handle(right, before, after, schema);
    } else {
      leaf = handle(after == nullptr ? left : right, before, after, schema);
    }
    if (!leaf && before == nullptr)
      changes.added.insert(path_);
    else if (!leaf && after == nullptr)
      changes.removed.insert(path_);
  }
  TypedChanges changes;

 private:
  bool note_leaf(const json::value* before, const json::value* after) {
    if (before == nullptr)
      changes.added.insert(path_);
    else if (after == nullptr)
      changes.removed.insert(path_);
    else if (!same_json(*before, *after))
      changes.modified.insert(path_);
    return true;
  }

  // True: the values were taken as a whole.
  bool handle(Atom atom, const json::value* before, const json::value* after, const Schema& schema) {
    if (atom == Atom::kScalar)
      return note_leaf(before, after);
    if (atom == Atom::kList) {
      const json::array *left = list_in(before), *right = list_in(after);
      if (atomic_list(schema) || ((left == nullptr || left->empty()) && (right == nullptr || right->empty())))
        return note_leaf(before, after);
      walk_lists(index_list(schema, left), index_list(schema, right), schema);
      return false;
    }
    const json::object *left = map_in(before), *right = map_in(after);
    if (atomic_map(schema) || ((left == nullptr || left->empty()) && (right == nullptr || right->empty())))
      return note_leaf(before, after);
    if (left != nullptr)
      for (const auto& entry : *left)
        descend(field_element(entry.key()), &entry.value(),
                right == nullptr ? nullptr : right->if_contains(entry.key()), below(schema, entry.key()));
    if (right != nullptr)
      for (const auto& entry : *right)
        if (left == nullptr || !left->contains(entry.key()))
          descend(field_element(entry.key()), nullptr, &entry.value(), below(schema, entry.key()));
    return false;
  }

  void walk_lists(const Indexed& left, const Indexed& right, const Schema& schema) {
    const std::vector<const json::value*> none;
    const auto pair_up = [&](const std::string& name, const std::vector<const json::value*>& before,
                             const std::vector<const json::value*>& after) {
      const auto sole = [](const std::vector<const json::value*>& list) {
        return list.empty() ? nullptr : list.front();
      };
      if (before.size() <= 1 && after.size() <= 1)
        return descend(name, sole(before), sole(after), element_of(schema));
      // Doubled elements are owned as one; when they begin or cease to be doubled their inside comes or goes.
      if (before.size() >= 2 && after.size() >= 2) {
        const bool same = std::equal(before.begin(), before.end(), after.begin(), after.end(),
                                     [](const json::value* a, const json::value* b) { return same_json(*a, *b); });
        if (!same)
          note(changes.modified, name);
        return;
      }
      if (before.size() >= 2) {
        if (!after.empty())
          descend(name, nullptr, after.front(), element_of(schema));
        return note(changes.removed, name);
      }
      if (!before.empty())
        descend(name, before.front(), nullptr, element_of(schema));
      note(changes.added, name);
    };
    for (const auto& [name, values] : left.by_name) {
      const auto other = right.by_name.find(name);
      pair_up(name, values, other == right.by_name.end() ? none : other->second);
    }
    for (const auto& [name, values] : right.by_name)
      if (!left.by_name.contains(name))
        pair_up(name, none, values);
  }

  void note(FieldSet& set, const std::string& element) {
    path_.push_back(element);
    set.insert(path_);
    path_.pop_back();
  }

  void descend(const std::string& element, const json::value* before, const json::value* after, const Schema& schema) {
    path_.push_back(element);
    walk(before, after, schema);
    path_.pop_back();
  }

  std::vector<std::string> path_;
};

json::value remove(const json::value& value, const FieldSet& unwanted, const Schema& schema, FieldSet& emptied) {
  if (const json::array* list = value.if_array()) {
    if (list->empty())
      return value;
    json::array kept;
    std::string fault;
    if (!atomic_list(schema))
      for (const json::value& each : *list) {
        const auto name = list_element(schema, each, fault);
        const FieldSet* set = name ? unwanted.find(*name) : nullptr;
        if (set == nullptr)
          kept.push_back(each);
        else if (!set->member)
          kept.push_back(remove(each, *set, element_of(schema), emptied.at(*name)));
      }
    emptied.member = kept.empty();
    return kept.empty() ? json::value() : json::value(std::move(kept));
  }
  if (const json::object* object = value.if_object()) {
    if (object->empty())
      return value;
    json::object kept;
    if (!atomic_map(schema))
      for (const auto& entry : *object) {
        const std::string name = field_element(entry.key());
        const FieldSet* set = unwanted.find(name);
        if (set == nullptr)
          kept[entry.key()] = entry.value();
        else if (!set->member)
          kept[entry.key()] = remove(entry.value(), *set, below(schema, entry.key()), emptied.at(name));
      }
    emptied.member = kept.empty();
    return kept.empty() ? json::value() : json::value(std::move(kept));
  }
  return value;
}

}  // namespace

std::vector<std::string> typed_faults(const json::value& value, const Schema& schema, Duplicates duplicates) {
  FaultWalk walk(duplicates);
  walk.walk(value, schema, {});
  return std::move(walk.faults);
}

FieldSet fields_of(const json::value& value, const Schema& schema) {
  FieldSet set;
  collect(value, schema, set);
  set.member = false;
  return set;
}

json::value merge_typed(const json::value& live, const json::value& config, const Schema& schema) {
  return merge(&live, &config, schema).value_or(json::object());
}

TypedChanges compare_typed(const json::value& before, const json::value& after, const Schema& schema) {
  CompareWalk walk;
  walk.walk(&before, &after, schema);
  return std::move(walk.changes);
}

json::value remove_fields(const json::value& value, const FieldSet& unwanted, const Schema& schema, FieldSet* emptied) {
  FieldSet made_null;
  json::value rest = remove(value, unwanted, schema, made_null);
  made_null.member = false;
  if (emptied != nullptr)
    *emptied = std::move(made_null);
  return rest.is_null() ? json::value(json::object()) : rest;
}

void drop_fields(json::value& value, const FieldSet& unwanted, const Schema& schema) {
  if (unwanted.below.empty())
    return;
  if (json::array* list = value.if_array()) {
    std::string fault;
    for (json::value& each : *list)
      if (const auto name = list_element(schema, each, fault))
        if (const FieldSet* set = unwanted.find(*name))
          drop_fields(each, *set, element_of(schema));
  } else if (json::object* object = value.if_object()) {
    drop_members(*object, [&](std::string_view key, const json::value&) {
      const FieldSet* set = unwanted.find(field_element(key));
      return set != nullptr && set->member;
    });
    for (auto& entry : *object)
      if (const FieldSet* set = unwanted.find(field_element(entry.key())))
        drop_fields(entry.value(), *set, below(schema, entry.key()));
  }
}

FieldSet with_named_fields(const FieldSet& set, const Schema& schema) {
  FieldSet out;
  out.member = set.member;
  for (const auto& [element, child] : set.below) {
    const bool field = element.starts_with("f:");
    const std::string_view name = std::string_view(element).substr(2);
    FieldSet made = with_named_fields(child, field ? below(schema, name) : element_of(schema));
    made.member = child.member || (field && named(schema, name) && !child.below.empty());
    out.below.emplace(element, std::move(made));
  }
  return out;
}

}  // namespace lockstep::kube
