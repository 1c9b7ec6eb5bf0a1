// Selection: which objects of a resource a request is about: by labels, by fields, by name.
#pragma once

#include <functional>

#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/server/request.h"

namespace lockstep::kube {

struct Selection {
  bool all = false;                            // of the namespace
  std::function<bool(const Object&)> by_meta;  // by what its envelope says
  // By fields of its body, or of what it shows: some tens of microseconds for each object. Null: they are not asked
  // for. then: what a pod showed when it was told; null: what it shows now.
  std::function<bool(const Object&, const PodRecords* then)> by_body;

  bool keeps(const Object& object) const { return by_meta(object) && (!by_body || by_body(object, nullptr)); }
};

// From ?labelSelector=, ?fieldSelector= and the name in the path. It lives no longer than the request: fields are those
// of what was converted for it.
Answered<Selection> selection_of(const Request& request);

}  // namespace lockstep::kube
