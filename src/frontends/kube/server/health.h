// What /healthz, /livez and /readyz answer, plain or with ?verbose, and the checks below them. Who gets an answer at
// all has one that says so: the state was read and the log is led before anybody is listened to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ports/http.h"

namespace lockstep::kube {

std::vector<std::string> health_paths();  // of all checks
// Nothing: the path is another.
std::optional<HttpResponse> health_answer(const HttpRequest& http);

}  // namespace lockstep::kube
