// What clients send: JSON, YAML or protobuf, read strictly or not, with defaults filled in and checked by its schema.
#pragma once

#include <functional>

#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// Whether reading it takes longer than everybody should wait for.
bool has_long_body(const Request& request);

// An object of the request's kind, as it was sent. On any thread, as all that reads a body.
Answered<json::object> read_body(const Request& request, const std::string& body);
// The same, aside where it is long; then `then` has it. What cannot be read is answered.
void read_body_then(const Asked& request, std::function<void(json::object)> then);
Answered<json::value> read_patch(const Request& request);
// DeleteOptions and the like, which are never long.
Answered<json::object> read_options(const Request& request);

// Brings the object into the form that is stored: fields that the kind does not have are dropped, warned of or refused,
// as ?fieldValidation= says, values get their type and canonical form, what is left open its default. text: as it was
// sent, where it was an object's: fields that it has twice are told, too (of what is applied in any case). A Status: it
// is refused.
std::optional<Status> settle_object(Request& request, json::object& tree, std::string_view text);
// The same of what a webhook made of it: fields that the kind does not have are dropped without a word.
std::optional<Status> settle_made(const Request& request, json::object& tree);

// old: null of a new object.
void validate_object(const Request& request, const json::object& tree, const json::object* old, FieldErrors& out);

}  // namespace lockstep::kube
