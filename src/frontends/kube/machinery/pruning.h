// Unknown and doubled fields: what `fieldValidation=Strict` refuses, `Warn` tells and `Ignore` keeps silent about.
//
// The words are the real server's: `strict decoding error: unknown field "spec.foo", duplicate field "spec.bar"`.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

inline constexpr std::size_t kStrictErrorsMax = 100;  // further ones are not told

// Drops every field that the schema does not know, and returns their paths in the order of the document, at most
// kStrictErrorsMax. apiVersion, kind and metadata of the object are always known.
std::vector<std::string> prune(json::object& object, const Schema& schema);

// Paths of keys that an object of this JSON text has twice. What is no JSON has none.
std::vector<std::string> duplicate_fields(std::string_view text);

// `unknown field "a", duplicate field "b"`; each is a warning of its own under `Warn`.
std::vector<std::string> strict_errors(const std::vector<std::string>& unknown,
                                       const std::vector<std::string>& duplicate);
std::string strict_message(const std::vector<std::string>& errors);  // "strict decoding error: …"

// The schema of a value where a custom resource's schema may be a schema, a list, a boolean or names. Null: none of its
// own.
const Schema* alternative(const Schema& schema, const json::value& value);

}  // namespace lockstep::kube
