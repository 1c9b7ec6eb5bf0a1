// Internal to defaulting.cpp: defaults of built-in types that depend on what else an object says.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/time.h"

namespace lockstep::kube {

namespace json = boost::json;

using ConditionalDefault = void (*)(json::object& object, WallTime now);

// By the schema's name; null: the type has none. It runs when the object's own constant defaults are there and those of
// its parts are not.
ConditionalDefault conditional_default(std::string_view schema);

}  // namespace lockstep::kube
