// What the server says of itself: its version, its groups and resources.
#pragma once

#include <optional>
#include <vector>

#include "frontends/kube/server/kinds.h"
#include "ports/http.h"

namespace lockstep::kube {

// The answer to "/version", "/api", "/apis", "/apis/GROUP", "/apis/GROUP/VERSION"; nothing: the path is none of these.
std::optional<HttpResponse> discovery_of(const HttpRequest& http, const Kinds& kinds);

}  // namespace lockstep::kube
