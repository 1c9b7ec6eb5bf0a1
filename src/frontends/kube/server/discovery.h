// What the server says of itself: its version, its groups and resources, and the schemas of their objects.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "frontends/kube/server/kinds.h"
#include "ports/http.h"

namespace lockstep::kube {

inline constexpr const char* kServerVersion = "v1.34.4";  // of the API that is served

class Discovery {
 public:
  explicit Discovery(const Kinds& kinds) : kinds_(kinds) {}

  // The answer to "/version", "/api", "/apis", "/apis/GROUP", "/apis/GROUP/VERSION" and what is under "/openapi";
  // nothing: the path is none of these.
  std::optional<HttpResponse> answer(const HttpRequest& http);

 private:
  std::optional<HttpResponse> openapi(const HttpRequest& http, const std::string& path);
  const std::string& document(const std::string& path);  // "" = there is none

  const Kinds& kinds_;
  // Documents are long and asked for often: kept until the kinds change.
  std::uint64_t made_of_ = 0;
  std::map<std::string, std::string> documents_;
};

}  // namespace lockstep::kube
