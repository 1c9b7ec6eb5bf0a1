// How a Kubernetes object lies in an Object record, and how it is shown again.
//
// The record's type is the resource ("pods", "deployments.apps"), whatever version a client speaks. Labels,
// annotations, owners, finalizers and the deletion stand in the record's envelope, where the core and the collector
// know them; the rest is the record's body: {"metadata":{…what the envelope has no place for…},"spec":…}. Whole objects
// are sent far more often than they are changed, so their text is put together from the two without reading the body.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/storage_ptr.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/records.h"

namespace lockstep::kube {

namespace json = boost::json;

// What each stored body begins with.
inline constexpr std::string_view kBodyStart = R"({"metadata":{)";

// JSON that was written here: an object, or what stands around some (a list, a review). It is deeper than the parser
// takes by default. What others send is parsed with an error code. A body that cannot be read, because it was damaged,
// is that of an object without any: one object must not end whoever looks at it.
inline constexpr std::size_t kOwnDepthMax = 208;
json::value parse_own(std::string_view text, json::storage_ptr storage = {});

// How a client wants to see an object.
struct ShownAs {
  std::string_view api_version, kind;  // "apps/v1", "Deployment"
};

// "01234567-89ab-4000-8000-4c6f636b7374": ours, and back. Nothing: it is none of ours.
std::string uid_text(Uid uid);
std::optional<Uid> uid_of(std::string_view text);

// "2026-11-26T11:00:00Z". wall_offset: adds to an Instant to give the wall clock.
std::string time_text(Instant at, Duration wall_offset);

// Takes an object apart. Of its metadata the name, namespace, labels, annotations, owners and finalizers go to the
// envelope; uid, resourceVersion and the deletion's time are the record's own and left out. The tree is well formed:
// validation has passed it.
Object object_of(std::string_view type, json::object tree);

// A body as it is stored: metadata first, wherever it stands in the tree. Kind and apiVersion are left out.
std::string body_text(json::object tree);

// The whole object. wall_offset: adds to an Instant to give the wall clock. seq: shown as its version instead of its
// own, in the event that removes it.
void append_text(std::string& out, const Object& object, const ShownAs& as, Duration wall_offset, Seq seq = 0);
// storage: where the tree's parts lie.
json::object tree_of(const Object& object, const ShownAs& as, Duration wall_offset, json::storage_ptr storage = {});

}  // namespace lockstep::kube
