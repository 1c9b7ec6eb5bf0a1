// What a probe or a hook asks of an HTTP server, and what its answer says of it: the status, and where it leads on.
// Source: RFC 9110, 15.4 ("Redirection"); kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes
// ("HTTP probes": redirects on the same host are followed, others pass).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

struct HttpAsk {
  std::string host, path, post_data;
  std::uint16_t port = 0;
  const std::vector<std::pair<std::string, std::string>>* headers = nullptr;
};
std::string http_text(const HttpAsk& ask);

struct HttpAnswer {
  std::uint64_t code = 0;
  std::string location;  // of a redirect; "" = it names none
};
// The head of an answer, or the beginning of one. Nothing: it is no answer.
std::optional<HttpAnswer> read_http_answer(std::string_view head);
// Asks over the socket, which is connected. Nothing: there was no answer.
std::optional<HttpAnswer> http_answer(int fd, const HttpAsk& ask);

struct HttpNext {
  HttpAsk ask;
  bool tls = false;
};
inline constexpr int kHttpRedirectsMax = 10;
// What is to be asked since the answer leads on to the same host. Nothing: it leads nowhere, or to others.
std::optional<HttpNext> led_on(const HttpAsk& asked, const HttpAnswer& answer);

}  // namespace lockstep
