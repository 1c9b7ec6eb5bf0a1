// JSON for people: who asks with ?pretty, or with a browser or curl, reads it indented, as from Kubernetes' own server.
#pragma once

#include <string>
#include <string_view>

#include "ports/http.h"

namespace lockstep::kube {

bool wants_indented(const HttpRequest& http);
// json: text as we write it, without blanks between its parts. What would become very long stays as it is.
std::string indented(std::string_view json);
// The answer, indented where it is JSON and the request wants it so.
HttpResponse indented_if_wanted(const HttpRequest& http, HttpResponse answer);

}  // namespace lockstep::kube
