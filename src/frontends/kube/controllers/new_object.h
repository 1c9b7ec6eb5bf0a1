// Objects that controllers make and change, as they are written.
#pragma once

#include <boost/json/object.hpp>

#include "frontends/kube/controllers/reconciler.h"

namespace lockstep::kube {

namespace json = boost::json;

// A new object of the resource, with its time of creation: tree holds metadata.name and what else it is to say.
// Refused where one of that name is there already.
void wish_new(Wishes& out, const ObjectView& view, Instant now, std::string_view type, json::object tree,
              std::vector<Shown> shows = {});

// The body's tree, and the object with another body; put_changed() is refused when the object is not this version.
json::object body_of(const Object& object);
Object with_body(const Object& object, const json::object& body);
void wish_changed(Wishes& out, Object changed, Seq read);

bool is_deleting(const Object& object);
bool has_finalizer(const Object& object, std::string_view finalizer);
Object without_finalizer(Object object, std::string_view finalizer);

}  // namespace lockstep::kube
