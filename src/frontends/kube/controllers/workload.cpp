#include "frontends/kube/controllers/workload.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "base/text.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kEventType = "events";
constexpr Duration kEventPause = seconds(30);  // a look that goes in vain is one of many

using Words = std::vector<std::pair<std::string, std::string>>;

std::string_view word_of(const Words& words, std::string_view key) {
  const auto at =
      std::ranges::lower_bound(words, key, {}, [](const auto& word) { return std::string_view(word.first); });
  return at != words.end() && at->first == key ? std::string_view(at->second) : std::string_view();
}

void append_ordered(std::string& out, const json::value& value) {
  if (value.is_object()) {
    std::vector<std::string_view> keys;
    for (const auto& member : value.get_object()) keys.push_back(member.key());
    std::ranges::sort(keys);
    out += '{';
    for (const std::string_view key : keys) {
      out += json::serialize(json::string_view(key.data(), key.size()));
      out += ':';
      append_ordered(out, value.get_object().at(key));
      out += ',';
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const json::value& one : value.get_array()) {
      append_ordered(out, one);
      out += ',';
    }
    out += ']';
  } else {
    out += is_number(value) ? number_text(value) : json::serialize(value);
  }
}

Object with_owners(const Object& object, json::array references) {
  json::object tree = whole_tree(object);
  if (references.empty())
    tree["metadata"].as_object().erase("ownerReferences");
  else
    tree["metadata"].as_object()["ownerReferences"] = std::move(references);
  return in_place_of(object, std::move(tree));
}

json::array references_of(const Object& object) {
  const json::object tree = whole_tree(object);
  const json::array* all = member_array(part(tree, "metadata"), "ownerReferences");
  return all ? *all : json::array();
}

json::array references_besides(const Object& object, const Object& owner) {
  json::array kept;
  for (json::value& one : references_of(object))
    if (text_in(one, "uid") != uid_text(owner.meta.uid))
      kept.push_back(std::move(one));
  return kept;
}

void wish_adoption(Wishes& out, const Object& owner, const WorkloadKind& kind, const Object& object,
                   std::string_view finalizer) {
  json::array references = references_besides(object, owner);
  references.push_back(reference_to(owner, kind));
  Object adopted = with_owners(object, std::move(references));
  if (!finalizer.empty() && !has_finalizer(adopted, finalizer)) {
    auto extra = std::make_shared<MetaExtra>(*adopted.meta.extra);
    extra->finalizers.emplace_back(finalizer);
    adopted.meta.extra = std::move(extra);
  }
  out.add(PutObject{std::move(adopted), object.meta.seq}, resting_on(owner));
}

void wish_release(Wishes& out, const Object& owner, const Object& object, std::string_view finalizer) {
  Object released = with_owners(object, references_besides(object, owner));
  if (!finalizer.empty() && has_finalizer(released, finalizer))
    released = without_finalizer(std::move(released), finalizer);
  out.add(PutObject{std::move(released), object.meta.seq}, resting_on(owner));
}

}  // namespace

std::string_view label_value(const Object& object, std::string_view key) {
  return object.meta.extra ? word_of(object.meta.extra->labels, key) : std::string_view();
}

std::string_view annotation_value(const Object& object, std::string_view key) {
  return object.meta.extra ? word_of(object.meta.extra->annotations, key) : std::string_view();
}

bool selects(const LabelSelector& selector, const Object& object) {
  return selector.matches([&](std::string_view key) -> std::optional<std::string_view> {
    if (!object.meta.extra)
      return std::nullopt;
    const auto& labels = object.meta.extra->labels;
    const auto at = std::ranges::lower_bound(labels, key, {}, [](const auto& l) { return std::string_view(l.first); });
    return at != labels.end() && at->first == key ? std::optional<std::string_view>(at->second) : std::nullopt;
  });
}

LabelSelector selector_in(const json::value& spec) {
  const json::value* selector = member(spec, "selector");
  const auto read = selector ? read_label_selector(*selector) : Result<LabelSelector>(LabelSelector{{}, true});
  return read.ok() && !read->everything() ? *read : LabelSelector{{}, true};
}

std::int64_t whole_in(const json::value& value, std::string_view key, std::int64_t otherwise) {
  const json::value* number = member(value, key);
  return number && is_number(*number) ? static_cast<std::int64_t>(number_of(*number)) : otherwise;
}

std::int64_t whole_in(const json::object& value, std::string_view key, std::int64_t otherwise) {
  const json::value* number = member(value, key);
  return number && is_number(*number) ? static_cast<std::int64_t>(number_of(*number)) : otherwise;
}

bool truth_in(const json::value& value, std::string_view key) {
  const json::value* said = member(value, key);
  return said && said->is_bool() && said->get_bool();
}

std::optional<std::int64_t> amount_in(const json::value& value, std::int64_t whole, Round round) {
  if (is_number(value))
    return static_cast<std::int64_t>(number_of(value));
  const std::string_view text = text_of(value);
  const auto percent = text.ends_with('%') ? parse_uint(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!percent || *percent > 1'000'000)
    return std::nullopt;
  return (whole * static_cast<std::int64_t>(*percent) + (round == Round::kUp ? 99 : 0)) / 100;
}

std::int64_t generation_of(const json::object& tree) { return whole_in(part(tree, "metadata"), "generation", 0); }

WallTime wall_time(const ObjectView& view, Instant now) { return {(now + view.wall_offset()).us}; }

Instant instant_of(const ObjectView& view, WallTime time) { return Instant{time.us} - view.wall_offset(); }

void add_reading(Reading& read, ObjectKey key, Seq seq) {
  Reading::Record& record = read.records.emplace_back();
  record.key = std::move(key);
  record.seq = seq;
}

void add_new(Reading& read, const ObjectView& view, const Object& made) {
  add_reading(read, key_of(made), 0);
  if (made.meta.ns.get().empty())
    return;
  const auto around = view.find("namespaces", "", made.meta.ns.get());
  add_reading(read, {"namespaces", "", made.meta.ns}, around ? around->meta.seq : 0);
}

Reading resting_on(const Object& object) {
  Reading read;
  add_reading(read, key_of(object), object.meta.seq);
  return read;
}

json::object whole_tree(const Object& object) { return tree_of(object, {"", ""}, {}); }

Object in_place_of(const Object& before, json::object tree) {
  Object object = object_of(before.type, std::move(tree));
  object.meta.uid = before.meta.uid;
  object.shows = before.shows;
  return object;
}

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::uint64_t hash_of_tree(const json::value& value) {
  std::string text;
  append_ordered(text, value);
  return hash_of(text);
}

std::string safe_letters(std::uint64_t hash, std::size_t length) {
  constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (; out.size() < length; hash /= kLetters.size()) {
    if (hash == 0)
      hash = hash_of(out);
    out += kLetters[hash % kLetters.size()];
  }
  return out;
}

const OwnerRef* controller_ref(const Object& object) {
  if (object.meta.extra)
    for (const OwnerRef& owner : object.meta.extra->owners)
      if (owner.controller)
        return &owner;
  return nullptr;
}

bool controlled_by(const Object& object, const Object& owner) {
  const OwnerRef* ref = controller_ref(object);
  return ref && ref->uid == owner.meta.uid;
}

json::object reference_to(const Object& owner, const WorkloadKind& kind) {
  return {{"apiVersion", as_json(kind.api_version)}, {"kind", as_json(kind.kind)}, {"name", owner.meta.name},
          {"uid", uid_text(owner.meta.uid)},         {"controller", true},         {"blockOwnerDeletion", true}};
}

std::vector<Ref<Object>> claim(const ObjectView& view, const Object& owner, const WorkloadKind& kind,
                               const LabelSelector& selector, std::string_view type, Wishes& out,
                               const std::function<bool(const Object&)>& may, std::string_view finalizer) {
  std::vector<Ref<Object>> claimed;
  const bool going = is_deleting(owner);
  for (const ObjectKey& key : view.dependents(owner.meta.uid)) {
    if (std::get<0>(key) != type || std::get<1>(key) != owner.meta.ns.get())
      continue;
    const Ref<Object> object = view.find(type, std::get<1>(key), std::get<2>(key));
    if (!object || !controlled_by(*object, owner) || !may(*object))
      continue;
    if (selects(selector, *object))
      claimed.push_back(object);
    else if (!going)
      wish_release(out, owner, *object, finalizer);
  }
  if (going)
    return claimed;
  for (const ObjectKey& key : view.uncontrolled(owner.meta.ns)) {
    if (std::get<0>(key) != type)
      continue;
    const Ref<Object> object = view.find(type, std::get<1>(key), std::get<2>(key));
    if (!object || is_deleting(*object) || !selects(selector, *object) || !may(*object))
      continue;
    wish_adoption(out, owner, kind, *object, finalizer);
    claimed.push_back(object);
  }
  std::ranges::sort(claimed, {}, [](const Ref<Object>& object) { return object->meta.name; });
  return claimed;
}

void wake_owner(const ObjectView& view, const Object& changed, const WorkloadKind& kind, std::vector<ObjectKey>& out) {
  const std::string& ns = changed.meta.ns;
  if (const OwnerRef* ref = controller_ref(changed)) {
    if (const auto owner = view.find(kind.type, ns, ref->name); owner && owner->meta.uid == ref->uid)
      out.push_back(key_of(*owner));
    return;
  }
  for (const auto& [key, owner] : view.in(kind.type, ns)) {
    const json::object body = body_of(*owner);
    const json::value& spec = part(body, "spec");
    const json::value* selector = member(spec, "selector");
    const bool plain = selector && selector->is_object() && kind.type == "replicationcontrollers";
    if (selects(plain ? select_labels(selector->get_object()) : selector_in(spec), changed))
      out.push_back(key);
  }
}

bool takes_new_objects(const ObjectView& view, const std::string& ns) {
  const auto around = view.find("namespaces", "", ns);
  return around && !is_deleting(*around);
}

const json::value* find_condition(const json::object& status, std::string_view type) {
  if (const json::array* conditions = member_array(status, "conditions"))
    for (const json::value& one : *conditions)
      if (text_in(one, "type") == type)
        return &one;
  return nullptr;
}

bool has_condition(const json::object& status, std::string_view type) {
  const json::value* one = find_condition(status, type);
  return one && text_in(*one, "status") == "True";
}

void drop_condition(json::object& status, std::string_view type) {
  json::value* conditions = status.if_contains("conditions");
  if (!conditions || !conditions->is_array())
    return;
  json::array kept;
  for (json::value& one : conditions->get_array())
    if (text_in(one, "type") != type)
      kept.push_back(std::move(one));
  if (kept.empty())
    status.erase("conditions");
  else
    *conditions = std::move(kept);
}

void add_condition(json::object& status, json::object condition) {
  drop_condition(status, text_in(condition, "type"));
  json::value& conditions = status["conditions"];
  (conditions.is_array() ? conditions.get_array() : conditions.emplace_array()).push_back(std::move(condition));
}

void wish_status(Wishes& out, const Object& object, json::object body, json::object status) {
  const json::value& before = part(body, "status");
  if (before.is_object() ? same_json(before, status) : status.empty())
    return;
  body["status"] = std::move(status);
  wish_changed(out, with_body(object, body), object.meta.seq);
}

namespace {

std::string namespace_of_events(const Object& about) {
  return about.meta.ns.get().empty() ? "default" : about.meta.ns.get();
}

// Clients that sort by time leave those of one second in the order of their names.
std::string event_name(const Object& about, const char* reason, const std::string& message, EventOrder order) {
  const std::uint64_t hash = hash_of(message, hash_of(reason, hash_of(uid_text(about.meta.uid))));
  return order == EventOrder{} ? format("{}.{:016x}", about.meta.name, hash)
                               : format("{}.{:04x}{:012x}", about.meta.name, static_cast<std::uint16_t>(order),
                                        hash & 0xffff'ffff'ffffull);
}

}  // namespace

Ref<Object> known_event(const ObjectView& view, const Object& about, const char* reason, const std::string& message,
                        EventOrder order) {
  return view.find(kEventType, namespace_of_events(about), event_name(about, reason, message, order));
}

Object event_about(const ObjectView& view, Instant now, const Object& object, const WorkloadKind& kind,
                   const char* type, const char* reason, const std::string& message, EventOrder order) {
  const std::string ns = namespace_of_events(object), name = event_name(object, reason, message, order);
  const std::string time = time_text(now, view.wall_offset());
  if (const auto known = view.find(kEventType, ns, name)) {
    json::object body = body_of(*known);
    body["count"] = whole_in(body, "count", 1) + 1;
    body["lastTimestamp"] = time;
    return with_body(*known, body);
  }
  json::object about{{"kind", as_json(kind.kind)}, {"namespace", ns}, {"name", object.meta.name}};
  about["uid"] = uid_text(object.meta.uid);
  about["apiVersion"] = as_json(kind.api_version);
  about["resourceVersion"] = std::to_string(object.meta.seq);
  json::object tree{{"metadata", {{"name", name}, {"namespace", ns}, {"creationTimestamp", time}}}};
  tree["involvedObject"] = std::move(about);
  tree["reason"] = reason;
  tree["message"] = message;
  tree["source"] = json::object{{"component", kind.component}};
  tree["firstTimestamp"] = time;
  tree["lastTimestamp"] = time;
  tree["count"] = 1;
  tree["type"] = type;
  tree["eventTime"] = nullptr;
  tree["reportingComponent"] = kind.component;
  tree["reportingInstance"] = "";
  return object_of(kEventType, std::move(tree));
}

void wish_event(Wishes& out, const ObjectView& view, Instant now, const Object& object, const WorkloadKind& kind,
                const char* type, const char* reason, const std::string& message) {
  if (!takes_new_objects(view, namespace_of_events(object)))
    return;
  if (const auto known = known_event(view, object, reason, message)) {
    const auto last = parse_timestamp(text_in(body_of(*known), "lastTimestamp"));
    if (last && wall_time(view, now).us - last->us < kEventPause.us)
      return;
  }
  out.add(PutObject{event_about(view, now, object, kind, type, reason, message), 0});
}

}  // namespace lockstep::kube
