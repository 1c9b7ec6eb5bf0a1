// The bearer token that a request shows: in its Authorization header, or, from browsers, which can set no header of a
// WebSocket, among the protocols that they offer.
#pragma once

#include <string>

#include "base/result.h"
#include "ports/http.h"

namespace lockstep::kube {

inline constexpr std::string_view kProtocolsHeader = "sec-websocket-protocol";

// "": it shows none, or a proof of another kind. Error: what it shows cannot be meant as a token.
// Source: RFC 9110, section 11.1 (a scheme is written in any case); k8s.io/apiserver pkg/authentication/request.
Result<std::string> shown_token(const HttpRequest& http);

// The protocols that a WebSocket's client offers, without that token: "v5.channel.k8s.io, v4.channel.k8s.io". "": none.
std::string offered_protocols(const HttpRequest& http);

}  // namespace lockstep::kube
