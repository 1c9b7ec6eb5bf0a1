#include "frontends/kube/machinery/merge_patch.h"

#include <boost/json/object.hpp>

#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {
namespace {

void merge_into(json::value& document, const json::value& patch) {
  const json::object* changes = patch.if_object();
  if (changes == nullptr) {
    document = patch;
    return;
  }
  if (!document.is_object())
    document = json::object();
  json::object& object = document.get_object();
  bool removes = false;
  for (const auto& change : *changes) {
    removes = removes || change.value().is_null();
    if (!change.value().is_null())
      merge_into(object[change.key()], change.value());
  }
  if (removes)
    drop_members(object, [&](std::string_view key, const json::value&) {
      const json::value* change = changes->if_contains(key);
      return change != nullptr && change->is_null();
    });
}

}  // namespace

json::value apply_merge_patch(json::value document, const json::value& patch) {
  merge_into(document, patch);
  return document;
}

json::value make_merge_patch(const json::value& from, const json::value& to) {
  const json::object *before = from.if_object(), *after = to.if_object();
  if (before == nullptr || after == nullptr)
    return to;
  json::object patch;
  for (const auto& entry : *before)
    if (!after->contains(entry.key()))
      patch[entry.key()] = nullptr;
  for (const auto& entry : *after) {
    const json::value* old = before->if_contains(entry.key());
    if (old == nullptr)
      patch[entry.key()] = entry.value();
    else if (!same_json(*old, entry.value()))
      patch[entry.key()] = make_merge_patch(*old, entry.value());
  }
  return patch;
}

}  // namespace lockstep::kube
