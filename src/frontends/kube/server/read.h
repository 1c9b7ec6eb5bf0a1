// Reading: one object, lists in pages, and watches.
#pragma once

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

void get_object(const Asked& request);
void list_objects(const Asked& request, const ObjectHistory& history);
void watch_objects(const Asked& request, std::shared_ptr<const ObjectHistory> history);

}  // namespace lockstep::kube
