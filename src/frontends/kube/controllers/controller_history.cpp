#include "frontends/kube/controllers/controller_history.h"

#include <algorithm>

#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

// As Go writes a map. Clients compare revisions with what they would be of a template, byte by byte.
json::value by_key(const json::value& value) {
  if (const json::array* list = value.if_array()) {
    json::array out;
    for (const json::value& one : *list) out.push_back(by_key(one));
    return out;
  }
  const json::object* object = value.if_object();
  if (!object)
    return value;
  std::vector<std::string_view> keys;
  for (const auto& entry : *object) keys.push_back(entry.key());
  std::ranges::sort(keys);
  json::object out;
  for (const std::string_view key : keys) out[key] = by_key(object->at(key));
  return out;
}

// A patch that brings the template back.
json::value revision_data(const json::object& tree) {
  json::value pod_template = part(part(tree, "spec"), "template");
  if (pod_template.is_object())
    pod_template.get_object()["$patch"] = "replace";
  json::object spec;
  spec["template"] = std::move(pod_template);
  json::object data;
  data["spec"] = std::move(spec);
  return by_key(data);
}

std::int64_t revision_number(const Object& revision) { return whole_in(body_of(revision), "revision", 0); }

void wish_revision(const ObjectView& view, Instant now, const Object& owner, const json::object& tree,
                   const WorkloadKind& kind, const char* hash_label, const RevisionBook& book, json::value data,
                   std::int64_t number, Wishes& out) {
  json::object labels;
  if (const json::object* own = member_object(part(part(part(tree, "spec"), "template"), "metadata"), "labels"))
    labels = *own;
  labels[hash_label] = book.newest_hash;
  json::object metadata{{"name", book.newest}, {"namespace", owner.meta.ns.get()}};
  metadata["labels"] = std::move(labels);
  if (const json::object* marks = member_object(part(tree, "metadata"), "annotations"))
    metadata["annotations"] = *marks;
  metadata["ownerReferences"] = json::array{reference_to(owner, kind)};
  metadata["creationTimestamp"] = time_text(now, view.wall_offset());
  json::object revision;
  revision["metadata"] = std::move(metadata);
  revision["data"] = std::move(data);
  revision["revision"] = number;
  Object made = object_of(kRevisionType, std::move(revision));
  Reading read = resting_on(owner);
  add_new(read, view, made);
  out.add(PutObject{std::move(made), 0}, std::move(read));
}

}  // namespace

RevisionBook keep_history(const ObjectView& view, Instant now, const Object& owner, const json::object& tree,
                          const WorkloadKind& kind, const char* hash_label, Wishes& out) {
  RevisionBook book;
  book.all = claim(view, owner, kind, selector_in(part(tree, "spec")), kRevisionType, out,
                   [](const Object& revision) { return !is_deleting(revision); });
  std::ranges::stable_sort(book.all, {}, [](const Ref<Object>& revision) { return revision_number(*revision); });
  json::value data = revision_data(tree);
  const std::int64_t last = book.all.empty() ? 0 : revision_number(*book.all.back());
  for (auto at = book.all.rbegin(); at != book.all.rend(); ++at) {
    json::object body = body_of(**at);
    if (!same_json(part(body, "data"), data))
      continue;
    book.newest = (*at)->meta.name;
    book.newest_hash = label_value(**at, hash_label);
    if (at != book.all.rbegin() && whole_in(body, "revision", 0) <= last) {
      body["revision"] = last + 1;
      wish_changed(out, with_body(**at, body), (*at)->meta.seq);
    }
    return book;
  }
  const std::int64_t collisions = whole_in(part(tree, "status"), "collisionCount", 0);
  book.newest_hash =
      safe_letters(hash_of(std::to_string(collisions), hash_of_tree(part(part(tree, "spec"), "template"))), 10);
  book.newest = owner.meta.name.substr(0, 223) + "-" + book.newest_hash;
  if (view.find(kRevisionType, owner.meta.ns.get(), book.newest))
    book.name_is_taken = true;
  else if (takes_new_objects(view, owner.meta.ns))
    wish_revision(view, now, owner, tree, kind, hash_label, book, std::move(data), last + 1, out);
  return book;
}

void trim_history(const Object& owner, const RevisionBook& book, const std::set<std::string>& live,
                  const char* hash_label, std::int64_t limit, Wishes& out) {
  std::vector<Ref<Object>> past;
  std::int64_t old = 0;
  for (const Ref<Object>& revision : book.all) {
    if (revision->meta.name == book.newest)
      continue;
    ++old;
    if (!live.contains(revision->meta.name) && !live.contains(std::string(label_value(*revision, hash_label))))
      past.push_back(revision);
  }
  for (const Ref<Object>& revision : past) {
    if (old-- <= limit)
      return;
    out.add(RemoveObject{revision->type, revision->meta.ns, revision->meta.name, revision->meta.seq},
            resting_on(owner));
  }
}

json::value template_of_revision(const Object& revision) {
  json::value pod_template = part(part(part(body_of(revision), "data"), "spec"), "template");
  if (json::object* tree = pod_template.if_object())
    tree->erase("$patch");
  return pod_template;
}

}  // namespace lockstep::kube
