// What clients send: JSON, YAML or protobuf, read strictly or not, with defaults filled in and checked by its schema.
#pragma once

#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// An object of the request's kind, as it was sent.
Answered<json::object> read_body(const Request& request, const std::string& body);
Answered<json::value> read_patch(const Request& request);
// DeleteOptions and the like.
Answered<json::object> read_options(const Request& request);

// Brings the object into the form that is stored: fields that the kind does not have are dropped, warned of or refused,
// as ?fieldValidation= says, values get their type and canonical form, what is left open its default. text: as it was
// sent, where it was JSON: fields that it has twice are told, too. A Status: it is refused.
std::optional<Status> settle_object(Request& request, json::object& tree, std::string_view text);

// old: null of a new object.
void validate_object(const Request& request, const json::object& tree, const json::object* old, FieldErrors& out);

}  // namespace lockstep::kube
