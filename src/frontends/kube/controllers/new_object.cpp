#include "frontends/kube/controllers/new_object.h"

#include <algorithm>

#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

void wish_new(Wishes& out, const ObjectView& view, Instant now, std::string_view type, json::object tree,
              std::vector<Shown> shows) {
  tree["metadata"].as_object()["creationTimestamp"] = time_text(now, view.wall_offset());
  Object object = object_of(type, std::move(tree));
  object.shows = std::move(shows);
  Reading read;
  add_new(read, view, object);
  out.add(PutObject{std::move(object), 0}, std::move(read));
}

json::object body_of(const Object& object) { return parse_own(object.body.get()).as_object(); }

Object with_body(const Object& object, const json::object& body) {
  Object changed = object;
  changed.body = body_text(body);
  return changed;
}

void wish_changed(Wishes& out, Object changed, Seq read) { out.add(PutObject{std::move(changed), read}); }

bool is_deleting(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

bool has_finalizer(const Object& object, std::string_view finalizer) {
  return object.meta.extra &&
         std::ranges::find(object.meta.extra->finalizers, finalizer) != object.meta.extra->finalizers.end();
}

Object without_finalizer(Object object, std::string_view finalizer) {
  auto extra = std::make_shared<MetaExtra>(*object.meta.extra);
  std::erase(extra->finalizers, finalizer);
  object.meta.extra = std::move(extra);
  return object;
}

}  // namespace lockstep::kube
