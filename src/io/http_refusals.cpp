#include "io/http_refusals.h"

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kRequestCost = 2 << 10;  // of memory, besides its bytes
constexpr std::size_t kFieldCost = 128;        // of one header or word of the query

}  // namespace

std::string error_body(std::string_view code, std::string_view message) {
  std::string clean;
  for (const char c : message) clean += c == '"' || c == '\\' || static_cast<unsigned char>(c) < 32 ? ' ' : c;
  return format(R"({{"error":{{"code":"{}","message":"{}","field":""}}}})", code, clean);
}

std::size_t cost_of(const HttpRequest& request) {
  std::size_t bytes = kRequestCost + request.path.size() + request.body.size();
  for (const auto* fields : {&request.headers, &request.query})
    for (const auto& [name, value] : *fields) bytes += kFieldCost + name.size() + value.size();
  for (const auto& [name, value] : request.earlier) bytes += kFieldCost + name.size() + value.size();
  return bytes;
}

HttpResponse come_again(std::string_view why) {
  return {.status = 503, .body = error_body("unavailable", why), .headers = {{"Retry-After", "1"}}};
}

}  // namespace lockstep
