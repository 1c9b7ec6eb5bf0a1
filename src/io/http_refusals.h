// What connections of either version of HTTP say by themselves, and what a request costs of its caller's memory.
#pragma once

#include <string>
#include <string_view>

#include "ports/http.h"

namespace lockstep {

std::string error_body(std::string_view code, std::string_view message);
std::size_t cost_of(const HttpRequest& request);
HttpResponse come_again(std::string_view why);  // 503

}  // namespace lockstep
