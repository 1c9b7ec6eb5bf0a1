// JSON merge patches (RFC 7386): objects are merged, null removes, everything else replaces.
#pragma once

#include <boost/json/value.hpp>

namespace lockstep::kube {

namespace json = boost::json;

// The document that the patch makes of `document`. As deep as the deeper of the two.
json::value apply_merge_patch(json::value document, const json::value& patch);

// The patch that makes `to` of `from`.
json::value make_merge_patch(const json::value& from, const json::value& to);

}  // namespace lockstep::kube
