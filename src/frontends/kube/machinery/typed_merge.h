// What the schema makes of two values of a resource: merged, compared, cut; and the set of fields that a value has.
// These are the steps of server-side apply. Semantics follow sigs.k8s.io/structured-merge-diff, typed.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "frontends/kube/machinery/field_set.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

enum class Duplicates : unsigned char { kRefused, kAllowed };

// Faults of a value with regard to the schema: wrong kinds, fields that are not declared, elements without a key,
// doubled elements; ".spec.foo: field not declared in schema". At most 20.
std::vector<std::string> typed_faults(const json::value& value, const Schema& schema, Duplicates duplicates);

// The fields that the value has: leaves, elements of lists and maps, and what is null or empty.
FieldSet fields_of(const json::value& value, const Schema& schema);

// `config` put over `live`: lists of sets and maps are merged element by element, in an order that suits both.
json::value merge_typed(const json::value& live, const json::value& config, const Schema& schema);

struct TypedChanges {
  FieldSet added, modified, removed;  // no path is in two of them

  bool none() const { return added.empty() && modified.empty() && removed.empty(); }
};
TypedChanges compare_typed(const json::value& before, const json::value& after, const Schema& schema);

// The value without the members of `unwanted`. What loses all of its parts by that becomes null, as in the original,
// where such a field still counts as there when owners are settled; `emptied` (if not null) gets those fields.
json::value remove_fields(const json::value& value, const FieldSet& unwanted, const Schema& schema, FieldSet* emptied);
void drop_fields(json::value& value, const FieldSet& unwanted, const Schema& schema);

// The set, and with each path the named fields above it ("spec" for "spec.replicas", but no key of a map).
FieldSet with_named_fields(const FieldSet& set, const Schema& schema);

}  // namespace lockstep::kube
