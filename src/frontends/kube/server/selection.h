// Selection: which objects of a resource a request is about: by labels, by fields, by name.
#pragma once

#include <functional>

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

struct Selection {
  bool all = false;  // of the namespace
  std::function<bool(const Object&)> keeps;
};

// From ?labelSelector=, ?fieldSelector= and the name in the path.
Answered<Selection> selection_of(const Request& request);

}  // namespace lockstep::kube
