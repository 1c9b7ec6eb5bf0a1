#include "frontends/kube/store/stored_object.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "base/text.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kUidEnd = "-4000-8000-4c6f636b7374";

std::string_view text_of(const json::value& value) {
  return value.is_string() ? std::string_view(value.get_string()) : std::string_view();
}

void append_quoted(std::string& out, std::string_view text) {
  out += json::serialize(json::string_view(text.data(), text.size()));
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs take_pairs(json::object& metadata, std::string_view name) {
  Pairs out;
  if (const auto at = metadata.find(name); at != metadata.end()) {
    if (const json::object* pairs = at->value().if_object())
      for (const auto& [key, value] : *pairs) out.emplace_back(key, text_of(value));
    metadata.erase(at);
  }
  std::sort(out.begin(), out.end());
  return out;
}

void append_pairs(std::string& out, std::string_view name, const Pairs& pairs) {
  if (pairs.empty())
    return;
  append_quoted(out += ',', name);
  char before = '{';
  out += ':';
  for (const auto& [key, value] : pairs) {
    append_quoted(out += std::exchange(before, ','), key);
    append_quoted(out += ':', value);
  }
  out += '}';
}

// The body without references to owners that the envelope has no more: the collector takes them off there alone.
// References to what is none of ours never stood in the envelope, and stay. Nothing: the body is as it is to be.
std::optional<std::string> mended_body(const Object& object, const MetaExtra& extra) {
  if (object.body.find(R"("ownerReferences":[)") == std::string::npos)
    return std::nullopt;
  json::object body = parse_own(object.body.get()).as_object();
  json::object& metadata = body["metadata"].as_object();
  json::value* references = metadata.if_contains("ownerReferences");
  if (!references || !references->is_array())
    return std::nullopt;
  const auto is_lost = [&](const json::value& one) {
    const json::object* owner = one.if_object();
    const json::value* uid = owner ? owner->if_contains("uid") : nullptr;
    const auto known = uid ? uid_of(text_of(*uid)) : std::nullopt;
    return known && std::none_of(extra.owners.begin(), extra.owners.end(),
                                 [&](const OwnerRef& other) { return other.uid == *known; });
  };
  json::array& all = references->get_array();
  if (std::none_of(all.begin(), all.end(), is_lost))
    return std::nullopt;
  json::array kept;
  for (json::value& one : all)
    if (!is_lost(one))
      kept.push_back(std::move(one));
  if (kept.empty())
    metadata.erase("ownerReferences");
  else
    *references = std::move(kept);
  return json::serialize(body);
}

bool truth(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_bool() && value->get_bool();
}

std::optional<json::value> parsed(std::string_view text, json::storage_ptr storage) {
  json::parse_options options;
  options.max_depth = kOwnDepthMax;
  boost::system::error_code failed;
  json::value value = json::parse({text.data(), text.size()}, failed, std::move(storage), options);
  return failed ? std::nullopt : std::optional(std::move(value));
}

}  // namespace

json::value parse_own(std::string_view text, json::storage_ptr storage) {
  if (auto value = parsed(text, storage); value && value->is_object())
    return std::move(*value);
  return json::value(json::object{{"metadata", json::object()}}, std::move(storage));
}

std::string uid_text(Uid uid) {
  const std::string digits = format("{:016x}", uid.value);
  return digits.substr(4, 8) + '-' + digits.substr(12, 4) + std::string(kUidEnd.substr(0, 10)) + '-' +
         digits.substr(0, 4) + std::string(kUidEnd.substr(15));
}

std::optional<Uid> uid_of(std::string_view text) {
  if (text.size() != 36)
    return std::nullopt;
  const std::string digits =
      std::string(text.substr(24, 4)) + std::string(text.substr(0, 8)) + std::string(text.substr(9, 4));
  std::uint64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const Uid uid(value);
  return read.ec == std::errc() && uid_text(uid) == text ? std::optional(uid) : std::nullopt;
}

std::string time_text(Instant at, Duration wall_offset) {
  const std::time_t when = static_cast<std::time_t>((at + wall_offset).us / 1'000'000);
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Object object_of(std::string_view type, json::object tree) {
  Object object;
  object.type = type;
  json::object& metadata =
      tree["metadata"].is_object() ? tree["metadata"].get_object() : tree["metadata"].emplace_object();
  object.meta.name = text_of(metadata["name"]);
  object.meta.ns = std::string(text_of(metadata["namespace"]));
  MetaExtra extra;
  extra.labels = take_pairs(metadata, "labels");
  extra.annotations = take_pairs(metadata, "annotations");
  if (const auto* owners = metadata.if_contains("ownerReferences"); owners && owners->is_array())
    for (const json::value& one : owners->get_array())
      if (const json::object* owner = one.if_object())
        if (const auto uid = uid_of(text_of(owner->contains("uid") ? owner->at("uid") : json::value())))
          extra.owners.push_back({Kind::kObject, *uid, std::string(text_of(owner->at("name"))),
                                  truth(*owner, "controller"), truth(*owner, "blockOwnerDeletion")});
  if (const auto* finalizers = metadata.if_contains("finalizers"); finalizers && finalizers->is_array())
    for (const json::value& one : finalizers->get_array()) extra.finalizers.emplace_back(text_of(one));
  for (const char* own : {"name", "namespace", "uid", "resourceVersion", "finalizers", "deletionTimestamp"})
    metadata.erase(own);
  if (object.type != "pods")  // only those have a time to go; of others it is always 0
    metadata.erase("deletionGracePeriodSeconds");
  if (extra != MetaExtra{})
    object.meta.extra = std::make_shared<const MetaExtra>(std::move(extra));
  object.body = body_text(std::move(tree));
  return object;
}

std::string body_text(json::object tree) {
  json::object body;
  json::value& metadata = body["metadata"];
  if (json::value* own = tree.if_contains("metadata"); own && own->is_object())
    metadata = std::move(*own);
  else
    metadata.emplace_object();
  for (auto& [name, value] : tree)
    if (name != "metadata" && name != "kind" && name != "apiVersion")
      body[name] = std::move(value);
  return json::serialize(body);
}

void append_text(std::string& out, const Object& object, const ShownAs& as, Duration wall_offset, Seq seq) {
  static const MetaExtra none;
  const MetaExtra& extra = object.meta.extra ? *object.meta.extra : none;
  append_quoted(out += R"({"kind":)", as.kind);
  append_quoted(out += R"(,"apiVersion":)", as.api_version);
  append_quoted(out += R"(,"metadata":{"name":)", object.meta.name);
  if (!object.meta.ns.get().empty())
    append_quoted(out += R"(,"namespace":)", object.meta.ns.get());
  append_quoted(out += R"(,"uid":)", uid_text(object.meta.uid));
  append_quoted(out += R"(,"resourceVersion":)", std::to_string(seq ? seq : object.meta.seq));
  append_pairs(out, "labels", extra.labels);
  append_pairs(out, "annotations", extra.annotations);
  if (!extra.finalizers.empty()) {
    char before = '[';
    out += R"(,"finalizers":)";
    for (const std::string& finalizer : extra.finalizers) append_quoted(out += std::exchange(before, ','), finalizer);
    out += ']';
  }
  if (extra.deleting)
    append_quoted(out += R"(,"deletionTimestamp":)", time_text(extra.deleting, wall_offset));
  const bool is_ours = object.body.starts_with(kBodyStart);  // body_text() begins so
  const std::optional<std::string> mended = is_ours ? mended_body(object, extra) : std::nullopt;
  const std::string_view rest =
      is_ours ? std::string_view(mended ? *mended : object.body.get()).substr(kBodyStart.size()) : "}}";
  if (!rest.starts_with('}'))
    out += ',';
  out += rest;
}

json::object tree_of(const Object& object, const ShownAs& as, Duration wall_offset, json::storage_ptr storage) {
  std::string text;
  append_text(text, object, as, wall_offset);
  if (auto tree = parsed(text, storage))
    return std::move(tree->as_object());
  Object bare = object;
  bare.body = std::string(kBodyStart) + "}}";
  text.clear();
  append_text(text, bare, as, wall_offset);
  return parse_own(text, std::move(storage)).as_object();
}

}  // namespace lockstep::kube
