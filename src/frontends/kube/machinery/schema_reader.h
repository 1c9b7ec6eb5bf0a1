// Schemas of JSON ("OpenAPI v3", as in a CustomResourceDefinition) made into Schemas: what a value may be, its defaults
// and how its lists are merged. What else a definition says stays in Schema::rules, for validation.
#pragma once

#include <boost/json/value.hpp>

#include "base/result.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

inline constexpr std::size_t kSchemaNodesMax = 50'000;  // of one definition's version

struct SchemaReading {
  SchemaSet& set;                       // owns what is made
  const Schema* object_meta = nullptr;  // of `metadata` in the root and in embedded resources; null: anything
};

// `properties` in JSON are taken as they are said: whether they are structural is another question (custom_schema.h).
// Errors: a part that is no object, or a schema with more parts than kSchemaNodesMax.
Result<const Schema*> read_schema(const SchemaReading& reading, const json::value& definition);

// The same for the root of a resource: apiVersion, kind and metadata are there whether it says so or not.
Result<const Schema*> read_root_schema(const SchemaReading& reading, const json::value& definition);

}  // namespace lockstep::kube
