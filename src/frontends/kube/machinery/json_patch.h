// JSON patches (RFC 6902): a list of operations on paths, applied all or none.
#pragma once

#include <boost/json/value.hpp>

#include "frontends/kube/machinery/status.h"

namespace lockstep::kube {

inline constexpr std::size_t kPatchOperationsMax = 10'000;

// The patched document. 400: no list of operations. 413: more than kPatchOperationsMax. 422: an operation does not
// apply, a test fails, or the whole would copy and compare more than it may (250,000 values), or grow deeper than
// kDepthMax. Copies of large parts into each other cannot make a large document of a small one: they count.
Answered<json::value> apply_json_patch(json::value document, const json::value& patch);

}  // namespace lockstep::kube
