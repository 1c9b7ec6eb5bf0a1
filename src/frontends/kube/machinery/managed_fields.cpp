#include "frontends/kube/machinery/managed_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <optional>
#include <tuple>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/machinery/typed_merge.h"

namespace lockstep::kube {
namespace {

using Entries = std::vector<ManagedEntry>;

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";
constexpr std::string_view kBeforeFirstApply = "before-first-apply";
constexpr std::string_view kAncient = "ancient-changes";
constexpr std::size_t kAnnotationsMax = 256 << 10;  // bytes of all annotations of an object

// Nobody manages what an object is and what only the server sets.
const FieldSet& never_managed() {
  static const FieldSet set = [] {
    FieldSet out;
    for (const char* name : {"f:apiVersion", "f:kind", "f:metadata"}) out.insert({name});
    for (const char* name : {"f:name", "f:namespace", "f:creationTimestamp", "f:selfLink", "f:uid", "f:clusterName",
                             "f:generation", "f:managedFields", "f:resourceVersion"})
      out.insert({"f:metadata", name});
    return out;
  }();
  return set;
}

json::object* metadata_of(json::value& object) {
  json::object* root = object.if_object();
  json::value* metadata = root == nullptr ? nullptr : root->if_contains("metadata");
  return metadata == nullptr ? nullptr : metadata->if_object();
}

json::value without_managed_fields(json::value object) {
  if (json::object* metadata = metadata_of(object))
    drop_members(*metadata, [](std::string_view key, const json::value&) { return key == "managedFields"; });
  return object;
}

std::string meta_text(const json::value& object, std::string_view key) {
  const json::object* metadata = member_object(object, "metadata");
  const json::value* found = metadata == nullptr ? nullptr : metadata->if_contains(key);
  return found == nullptr ? std::string() : std::string(text_of(*found));
}

// A value of a built-in type with nothing in it, as the real server holds it: what is no pointer is there all the same.
json::value nothing_of(const Schema& schema) {
  switch (schema.type) {
    case Schema::Type::kObject: {
      json::object out;
      for (const Field& field : schema.fields)
        if (field.number != 0 && field.always)
          out[field.name] = field.pointer ? json::value() : nothing_of(*field.schema);
      return out;
    }
    case Schema::Type::kInteger: return 0;
    case Schema::Type::kBoolean: return false;
    case Schema::Type::kString: return schema.format.empty() ? json::value("") : json::value();
    default: return nullptr;
  }
}

// The object as one of its kind with nothing in it: what a creation is compared with.
json::value empty_of(const json::value& object, const Schema& schema) {
  json::value empty = nothing_of(schema);
  if (!empty.is_object())
    empty.emplace_object();
  for (const char* key : {"apiVersion", "kind"})
    if (const json::value* value = member(object, key))
      empty.get_object()[key] = *value;
  return empty;
}

// The same of what an apply begins with: nothing but its name.
json::value bare_of(const json::value& object) {
  json::object bare;
  for (const char* key : {"apiVersion", "kind"})
    if (const json::value* value = member(object, key))
      bare[key] = *value;
  return bare;
}

// A request that empties the list says that the object is to have no managers any more.
bool resets_managers(const json::value& object) {
  const json::object* metadata = member_object(object, "metadata");
  const json::value* list = metadata == nullptr ? nullptr : metadata->if_contains("managedFields");
  if (list == nullptr || !list->is_array())
    return false;
  const json::array& entries = list->get_array();
  return entries.empty() ||
         (entries.size() == 1 && entries.front().is_object() && entries.front().get_object().empty());
}

ManagedEntry* find_entry(Entries& entries, const ManagedEntry& wanted) {
  const auto at = std::ranges::find_if(entries, [&](const ManagedEntry& each) { return each.same_manager(wanted); });
  return at == entries.end() ? nullptr : &*at;
}

void drop_empty(Entries& entries) {
  std::erase_if(entries, [](const ManagedEntry& each) { return each.fields.empty(); });
}

FieldSet minus_ignored(FieldSet set, const FieldManager& manager) {
  return manager.ignored == nullptr ? set : without_below(set, *manager.ignored);
}

TypedChanges compare_for(const json::value& before, const json::value& after, const Schema& schema,
                         const FieldManager& manager) {
  TypedChanges changes = compare_typed(before, after, schema);
  changes.added = minus_ignored(std::move(changes.added), manager);
  changes.modified = minus_ignored(std::move(changes.modified), manager);
  changes.removed = minus_ignored(std::move(changes.removed), manager);
  return changes;
}

ManagedEntry own_entry(const FieldManager& manager, bool applied) {
  ManagedEntry entry;
  entry.manager = manager.name.empty() ? "unknown" : manager.name.substr(0, kManagerNameMax);
  entry.applied = applied;
  entry.api_version = manager.api_version;
  entry.subresource = manager.subresource;
  return entry;
}

// Beyond a number of updaters the oldest ones of a version become one.
void cap_update_managers(Entries& entries) {
  std::vector<std::size_t> updaters;
  for (std::size_t at = 0; at < entries.size(); ++at)
    if (!entries[at].applied)
      updaters.push_back(at);
  std::size_t length = updaters.size();
  if (length <= kUpdateManagersMax)
    return;
  std::ranges::stable_sort(updaters, [&](std::size_t a, std::size_t b) {
    return std::tie(entries[a].time, entries[a].manager) < std::tie(entries[b].time, entries[b].manager);
  });
  std::map<std::string, std::size_t> first;  // of each version
  for (const std::size_t at : updaters) {
    if (length <= kUpdateManagersMax)
      break;
    ManagedEntry& entry = entries[at];
    const auto [bucket, fresh] = first.try_emplace(entry.api_version, at);
    if (fresh)
      continue;
    ManagedEntry& ancient = entries[bucket->second];
    ancient.manager = kAncient;
    ancient.subresource.clear();
    ancient.time = entry.time;
    ancient.fields = united(std::move(ancient.fields), entry.fields);
    entry.fields = FieldSet();
    --length;
  }
  drop_empty(entries);
}

struct Conflict {
  const ManagedEntry* entry;
  std::vector<std::string> path;
};

std::string entry_text(const ManagedEntry& entry) {
  std::string text = quoted(entry.manager);
  if (!entry.subresource.empty())
    text += " with subresource " + quoted(entry.subresource);
  if (entry.applied)
    return text;
  return text + " using " + entry.api_version;
}

Status conflict_status(const std::vector<Conflict>& conflicts) {
  std::vector<Cause> causes;
  std::map<std::string, std::vector<std::string>> by_manager;
  for (const Conflict& each : conflicts) {
    const std::string who = entry_text(*each.entry), path = path_text(each.path);
    causes.push_back({"FieldManagerConflict", "conflict with " + who, path});
    by_manager[who].push_back(path);
  }
  if (conflicts.size() == 1)
    return Status::apply_conflict(
        causes, format("Apply failed with 1 conflict: conflict with {}: {}", entry_text(*conflicts.front().entry),
                       path_text(conflicts.front().path)));
  std::string lines;
  for (const auto& [who, paths] : by_manager) {
    lines += format("{}conflicts with {}:", lines.empty() ? "" : "\n", who);
    for (const std::string& path : paths) lines += "\n- " + path;
  }
  return Status::apply_conflict(std::move(causes),
                                format("Apply failed with {} conflicts: {}", conflicts.size(), lines));
}

// The others lose what changes hands and what is gone. Returns what would change hands against their will.
std::vector<Conflict> conflicts_with(const Entries& entries, const TypedChanges& changes, const ManagedEntry& self) {
  std::vector<Conflict> conflicts;
  const FieldSet touched = united(changes.modified, changes.added);
  for (const ManagedEntry& entry : entries)
    if (!entry.same_manager(self))
      common(entry.fields, touched).each([&](const std::vector<std::string>& path) {
        conflicts.push_back({&entry, path});
      });
  return conflicts;
}

void take_from_others(Entries& entries, const TypedChanges& changes, const ManagedEntry& self) {
  const FieldSet lost = united(united(changes.modified, changes.added), changes.removed);
  for (ManagedEntry& entry : entries)
    if (!entry.same_manager(self))
      entry.fields = without(entry.fields, lost);
  drop_empty(entries);
}

void track(const json::value& before, const json::value& after, const Schema& schema, const FieldManager& manager,
           Entries& entries) {
  const TypedChanges changes = compare_for(before, after, schema, manager);
  ManagedEntry self = own_entry(manager, false);
  ManagedEntry nobody = self;  // the manager's earlier entry loses what it writes now, like any other
  nobody.manager += '\n';
  take_from_others(entries, changes, nobody);
  self.fields = without(minus_ignored(united(changes.modified, changes.added), manager), never_managed());
  if (!self.fields.empty()) {
    self.time = timestamp_text(manager.now);
    if (ManagedEntry* earlier = find_entry(entries, self)) {
      earlier->fields = united(std::move(self.fields), earlier->fields);
      earlier->time = self.time;
    } else {
      entries.push_back(std::move(self));
    }
  }
  cap_update_managers(entries);
}

// What client-side apply put there and still stands unchanged: kubectl may take it over from any manager.
FieldSet left_by_client_side_apply(const json::value& live, const Schema& schema, const std::string& api_version) {
  const json::object* metadata = member_object(live, "metadata");
  const json::value* annotations = metadata == nullptr ? nullptr : metadata->if_contains("annotations");
  const json::value* text = annotations == nullptr ? nullptr : member(*annotations, kLastApplied);
  if (text == nullptr)
    return {};
  const auto parsed = parse_given(text_of(*text));
  const json::value applied = parsed.ok() ? *parsed : json::value();
  const json::value* version = member(applied, "apiVersion");
  if (version == nullptr || text_of(*version) != api_version)
    return {};
  if (!typed_faults(applied, schema, Duplicates::kRefused).empty())
    return {};
  const TypedChanges since = compare_typed(applied, live, schema);
  return without(without(without(fields_of(applied, schema), since.modified), since.added), since.removed);
}

// An annotation of client-side apply that is there is kept up to date, so that an older kubectl can go on with it.
void refresh_last_applied(json::value& object, const json::value& config) {
  json::object* metadata = metadata_of(object);
  json::value* annotations = metadata == nullptr ? nullptr : metadata->if_contains("annotations");
  json::object* all = annotations == nullptr ? nullptr : annotations->if_object();
  json::value* text = all == nullptr ? nullptr : all->if_contains(kLastApplied);
  if (text == nullptr || text_of(*text).empty())
    return;
  json::value bare = without_managed_fields(config);
  if (json::object* own = metadata_of(bare))
    if (json::value* list = own->if_contains("annotations"); list != nullptr && list->is_object())
      drop_members(list->get_object(), [](std::string_view key, const json::value&) { return key == kLastApplied; });
  *text = json::serialize(bare) + "\n";
  std::size_t size = 0;
  for (const auto& entry : *all) size += entry.key().size() + text_of(entry.value()).size();
  if (size > kAnnotationsMax)
    drop_members(*all, [](std::string_view key, const json::value&) { return key == kLastApplied; });
}

// Takes away what the manager applied before, does not apply now, and nobody else owns.
json::value prune(const json::value& merged, const FieldSet& last, const Entries& entries, const Schema& schema,
                  FieldSet& emptied) {
  if (last.empty())
    return merged;
  const FieldSet last_named = with_named_fields(last, schema);
  const FieldSet merged_set = with_named_fields(fields_of(merged, schema), schema);
  FieldSet owned;
  for (const ManagedEntry& entry : entries) owned = united(std::move(owned), entry.fields);
  const auto set_of = [&](const json::value& value) { return with_named_fields(fields_of(value, schema), schema); };
  json::value pruned = remove_fields(merged, last_named, schema, nullptr);
  // Back comes what somebody owns, then what this manager never owned.
  const FieldSet kept = united(set_of(pruned), with_named_fields(owned, schema));
  pruned = remove_fields(merged, without(merged_set, kept), schema, nullptr);
  return remove_fields(merged, common(without(merged_set, set_of(pruned)), last_named), schema, &emptied);
}

struct Applied {
  json::value object;
  Entries entries;
  std::vector<Conflict> conflicts;
  bool changed = false;
};

Applied apply_once(const json::value& live, const json::value& config, const Schema& schema,
                   const FieldManager& manager, const Entries& before) {
  Applied out;
  out.entries = before;
  ManagedEntry self = own_entry(manager, true);
  self.fields = minus_ignored(fields_of(config, schema), manager);
  FieldSet last;
  if (ManagedEntry* earlier = find_entry(out.entries, self)) {
    last = std::move(earlier->fields);
    self.time = earlier->time;
    *earlier = self;
  } else {
    out.entries.push_back(self);
  }
  FieldSet emptied;
  out.object = prune(merge_typed(live, config, schema), last, out.entries, schema, emptied);
  const TypedChanges changes = compare_for(live, out.object, schema, manager);
  out.conflicts = conflicts_with(before, changes, self);
  take_from_others(out.entries, changes, self);
  out.changed = !same_json(live, out.object);
  drop_fields(out.object, emptied, schema);
  if (ManagedEntry* own = find_entry(out.entries, self)) {
    own->fields = without(own->fields, never_managed());
    if (out.changed || own->time.empty())
      own->time = timestamp_text(manager.now);
  }
  drop_empty(out.entries);
  return out;
}

Answered<std::monostate> check_config(const json::value& live, const json::value& config, const Schema& schema,
                                      const FieldManager& manager) {
  const auto said = [&](std::string_view key) {
    const json::value* value = member(config, key);
    return value == nullptr ? std::string() : std::string(text_of(*value));
  };
  if (!config.is_object())
    return Status::bad_request("an apply patch is an object");
  if (said("apiVersion") != manager.api_version)
    return Status::bad_request(
        format("Incorrect version specified in apply patch. Specified patch version: {}, "
               "expected: {}",
               said("apiVersion"), manager.api_version));
  if (const json::value* kind = member(live, "kind"); kind != nullptr && text_of(*kind) != said("kind"))
    return Status::bad_request(format("invalid object type: {}, Kind={}", said("apiVersion"), said("kind")));
  const json::object* metadata = member_object(config, "metadata");
  const json::value* managed = metadata == nullptr ? nullptr : metadata->if_contains("managedFields");
  if (managed != nullptr && !managed->is_null())
    return Status::bad_request("metadata.managedFields must be nil");
  const std::vector<std::string> faults = typed_faults(config, schema, Duplicates::kRefused);
  if (faults.empty())
    return std::monostate{};
  const std::string text = faults.size() == 1 ? faults.front() : "errors:\n  " + join(faults, "\n  ");
  return Status::bad_request(format("failed to create typed patch object ({}/{}; {}, Kind={}): {}",
                                    meta_text(config, "namespace"), meta_text(config, "name"), said("apiVersion"),
                                    said("kind"), text));
}

}  // namespace

Result<Entries> read_managed_fields(const json::value& object) {
  Entries entries;
  const json::object* metadata = member_object(object, "metadata");
  const json::value* list = metadata == nullptr ? nullptr : metadata->if_contains("managedFields");
  if (list == nullptr || list->is_null())
    return entries;
  if (!list->is_array())
    return invalid("managedFields is a list");
  for (const json::value& each : list->get_array()) {
    const auto part = [&](std::string_view key) {
      const json::value* value = member(each, key);
      return value == nullptr ? std::string() : std::string(text_of(*value));
    };
    ManagedEntry entry;
    entry.manager = part("manager");
    entry.applied = part("operation") == "Apply";
    if (!entry.applied && part("operation") != "Update")
      return invalid("operation must be `Apply` or `Update`");
    entry.api_version = part("apiVersion");
    if (entry.api_version.empty())
      return invalid("apiVersion must not be empty");
    if (part("fieldsType") != "FieldsV1")
      return invalid(
          format("invalid fieldsType {} in managed fields entry {}", quoted(part("fieldsType")), entries.size()));
    entry.time = part("time");
    entry.subresource = part("subresource");
    if (const json::value* fields = member(each, "fieldsV1"))
      entry.fields = TRY(read_fields_v1(*fields));
    if (ManagedEntry* earlier = find_entry(entries, entry))
      *earlier = std::move(entry);
    else
      entries.push_back(std::move(entry));
  }
  return entries;
}

void write_managed_fields(json::value& object, Entries entries) {
  json::object* metadata = metadata_of(object);
  if (metadata == nullptr)
    return;
  if (entries.empty()) {
    drop_members(*metadata, [](std::string_view key, const json::value&) { return key == "managedFields"; });
    return;
  }
  std::ranges::sort(entries, [](const ManagedEntry& a, const ManagedEntry& b) {
    return std::tuple(!a.applied, std::string_view(a.time), std::string_view(a.manager),
                      std::string_view(a.api_version), std::string_view(a.subresource)) <
           std::tuple(!b.applied, std::string_view(b.time), std::string_view(b.manager),
                      std::string_view(b.api_version), std::string_view(b.subresource));
  });
  json::array list;
  for (const ManagedEntry& entry : entries) {
    json::object out;
    out["manager"] = entry.manager;
    out["operation"] = entry.applied ? "Apply" : "Update";
    out["apiVersion"] = entry.api_version;
    if (!entry.time.empty())
      out["time"] = entry.time;
    out["fieldsType"] = "FieldsV1";
    out["fieldsV1"] = fields_v1(entry.fields);
    if (!entry.subresource.empty())
      out["subresource"] = entry.subresource;
    list.push_back(std::move(out));
  }
  (*metadata)["managedFields"] = std::move(list);
}

void track_update(const json::value& live, json::value& changed, const Schema& schema, const FieldManager& manager) {
  const auto entries_of = [](const json::value& object) {
    auto entries = read_managed_fields(object);
    return entries.ok() ? std::move(*entries) : Entries();
  };
  Entries entries;
  if (!manager.subresource.empty()) {
    entries = entries_of(live);
  } else if (!resets_managers(changed)) {
    entries = entries_of(changed);
    if (entries.empty())
      entries = entries_of(live);
  }
  changed = without_managed_fields(std::move(changed));
  const bool creates = live.is_null() || meta_text(live, "uid").empty();
  // An object that has no managers gets them with the first apply only.
  if (entries.empty() && !creates)
    return;
  const json::value before = creates && live.is_null() ? empty_of(changed, schema) : without_managed_fields(live);
  track(before, changed, schema, manager, entries);
  write_managed_fields(changed, std::move(entries));
}

Answered<json::value> apply_configuration(const json::value& live, const json::value& config, const Schema& schema,
                                          const FieldManager& manager, Force force) {
  TRY(check_config(live, config, schema, manager));
  auto read = read_managed_fields(live);
  if (!read)
    return Status::internal("failed to decode managed fields: " + read.error().message);
  Entries entries = std::move(*read);
  const json::value before = live.is_null() ? bare_of(config) : without_managed_fields(live);
  if (entries.empty()) {
    FieldManager earlier = manager;
    earlier.name = kBeforeFirstApply;
    track(empty_of(config, schema), before, schema, earlier, entries);
  }
  Applied applied = apply_once(before, config, schema, manager, entries);
  if (!applied.conflicts.empty() && force == Force::kNo) {
    if (manager.name == "kubectl") {
      const FieldSet allowed = left_by_client_side_apply(before, schema, manager.api_version);
      std::erase_if(applied.conflicts, [&](const Conflict& each) { return allowed.has(each.path); });
    }
    if (!applied.conflicts.empty())
      return conflict_status(applied.conflicts);
  }
  if (manager.name == "kubectl")
    refresh_last_applied(applied.object, config);
  cap_update_managers(applied.entries);
  write_managed_fields(applied.object, std::move(applied.entries));
  return std::move(applied.object);
}

bool only_times_differ(const json::value& live, const json::value& changed) {
  if (!same_json(without_managed_fields(live), without_managed_fields(changed)))
    return false;
  const auto before = read_managed_fields(live), after = read_managed_fields(changed);
  if (!before.ok() || !after.ok() || before->size() != after->size())
    return false;
  return std::ranges::all_of(*before, [&](const ManagedEntry& each) {
    return std::ranges::any_of(*after, [&](const ManagedEntry& other) {
      return each.same_manager(other) && each.api_version == other.api_version && each.fields == other.fields;
    });
  });
}

}  // namespace lockstep::kube
