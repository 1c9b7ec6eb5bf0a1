// Fills in what an object leaves open: constant defaults of its schema, and those of built-in kinds that depend on what
// else the object says. Custom resources take the first alone.
#pragma once

#include <boost/json/object.hpp>

#include "base/time.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

// The object is pruned and, if built-in, settled. Built-in parts that are always there ("status", "resources") are
// made.
void fill_defaults(json::object& object, const Schema& schema, WallTime now);

}  // namespace lockstep::kube
