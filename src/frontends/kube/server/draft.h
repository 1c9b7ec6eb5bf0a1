// What an object is to be, on its way from what was sent to what is stored. Its steps either look at the object alone,
// and may be done on any thread, or at the cluster, and are done on the I/O thread.
#pragma once

#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/machinery/managed_fields.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

struct Draft {
  enum class Managers : bool { kTracked, kKnown };  // kKnown: the tree brings them, as an apply has made them

  json::object tree;
  Ref<Object> before = nullptr;  // null: it is new
  json::object old = {};         // its tree
  Managers managers = Managers::kTracked;
  bool is_sent = false;                     // the tree is what the body says: fields that it has twice are told
  std::string refusal = {};                 // of a pod: why what it asks of its job was refused a moment ago
  std::optional<json::object> stored = {};  // the tree in the version that is stored, where a webhook made that
};

// --- at the cluster ---

// name_end: what a generated name ends with.
Draft begin_new(const Request& request, json::object tree, const std::string& name_end);
// What other objects say of a new one.
std::optional<Status> complete_draft(const Request& request, Draft& draft);
// What a new object rests on: that its namespace is not being deleted, nor its kind's definition.
Answered<Reading> room_for(const Request& request, std::string_view name);

// --- at the object alone ---

// old: the tree of `before`. A Status: it names another object or version than it replaces.
Answered<Draft> begin_update(const Request& request, const Ref<Object>& before, json::object old, json::object tree);
// Fields, types, defaults, and who set them.
std::optional<Status> settle_draft(Request& request, Draft& draft);
// The same of what webhooks made of it: it is still the object that the request names.
std::optional<Status> settle_changed(const Request& request, Draft& draft, json::object changed);
// What no webhook changes any more: the fields' own rules, and the number of its wish.
std::optional<Status> validate_draft(Request& request, Draft& draft);
// Of the tree as it is to be stored.
// records: of a pod whose status was written.
Object object_to_store(const Request& request, const Draft& draft, const PodRecords* records);
// Whether storing it would change nothing, or times alone.
bool changes_nothing(Draft& draft, const Object& object);

// --- parts of trees ---

json::object& metadata_of(json::object& tree);
// Where the status is written and nothing else. A certificate's approval is part of it.
bool is_status(std::string_view subresource);
bool is_apply(const Request& request);
// A patch that makes of the object what cannot be one.
Status bad_patch(const std::string& why);
FieldManager manager_of(const Request& request, const FieldSet& ignored);
// What cannot be changed where the request goes: the status from outside of /status, the rest from there.
FieldSet ignored_by(const Request& request);

}  // namespace lockstep::kube
