#include "frontends/kube/server/shown_token.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/server/target.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kScheme = "bearer", kTokenProtocol = "base64url.bearer.authorization.k8s.io.";

Error broken(const char* why) { return {Errc::kInvalid, why, std::string(kProtocolsHeader)}; }

// base64url without padding. The other alphabet's characters stand in no such text.
Result<std::string> token_of_protocol(std::string_view encoded) {
  std::string text(encoded);
  if (text.empty() || text.find_first_of("+/= \r\n") != text.npos)
    return broken("the token among the protocols is not base64url");
  std::ranges::replace(text, '-', '+');
  std::ranges::replace(text, '_', '/');
  text.append((4 - text.size() % 4) % 4, '=');
  auto token = bytes_of_base64(text);
  if (!token || !is_utf8(*token))
    return broken("the token among the protocols is not base64url");
  return std::move(*token);
}

bool is_token(std::string_view protocol) { return protocol.starts_with(kTokenProtocol); }

}  // namespace

Result<std::string> shown_token(const HttpRequest& http) {
  if (const std::vector<std::string> words = split_words(header_of(http, "authorization"));
      words.size() > 1 && lower(words[0]) == kScheme)
    return words[1];
  if (lower(header_of(http, "upgrade")) != "websocket")
    return std::string();
  std::string shown;
  for (const std::string& one : split(header_of(http, kProtocolsHeader), ',')) {
    const std::string_view protocol = trim(one);
    if (!is_token(protocol))
      continue;
    if (!shown.empty())
      return broken("there is more than one token among the protocols");
    shown = TRY(token_of_protocol(protocol.substr(kTokenProtocol.size())));
  }
  // The answer has to name one of the protocols, and the token is not to be repeated.
  if (!shown.empty() && offered_protocols(http).empty())
    return broken("there is no protocol beside the token");
  return shown;
}

std::string offered_protocols(const HttpRequest& http) {
  std::vector<std::string> out;
  for (const std::string& one : split(header_of(http, kProtocolsHeader), ','))
    if (const std::string_view protocol = trim(one); !protocol.empty() && !is_token(protocol))
      out.emplace_back(protocol);
  return join(out, ", ");
}

}  // namespace lockstep::kube
