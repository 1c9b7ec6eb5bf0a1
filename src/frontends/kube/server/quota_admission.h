// Quotas of a namespace at the door: what is made counts itself in the same commit, so that none is ever overrun.
#pragma once

#include <vector>

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// The commands that count the object as it is to be, in place of what it was (null: it is new). Refused (403) where it
// would exceed a quota. The commands are refused as stale when a quota changed meanwhile: try again.
Answered<std::vector<CommandBody>> count_in_quotas(const Request& request, const json::object& tree,
                                                   const json::object* old);

}  // namespace lockstep::kube
