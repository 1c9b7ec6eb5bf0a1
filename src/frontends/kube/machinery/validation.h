// What every built-in object must keep to by its schema: required fields and words of which there is a known list.
//
// What only a kind's own rules say (that a selector matches its template's labels) is beside the kind.
#pragma once

#include "frontends/kube/machinery/field_error.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

inline constexpr std::size_t kFieldErrorsMax = 100;

// The object is settled and has its defaults. Its status is not looked at: what controllers write is not refused for
// words.
FieldErrors validate_fields(const json::object& object, const Schema& schema);

}  // namespace lockstep::kube
