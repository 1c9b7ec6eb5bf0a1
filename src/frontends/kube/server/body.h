// What clients send: JSON, YAML or protobuf, read strictly or not, with defaults filled in and checked by its schema.
#pragma once

#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// An object of the request's kind. Fields that the kind does not have are dropped, warned of or refused, as
// ?fieldValidation= says.
Answered<json::object> read_body(Request& request, const std::string& body);
Answered<json::value> read_patch(const Request& request);
Answered<json::object> read_options(const Request& request);  // DeleteOptions and the like

void fill_defaults(const Request& request, json::object& tree);
void validate_object(const Request& request, const json::object& tree, const json::object* old, FieldErrors& out);

}  // namespace lockstep::kube
