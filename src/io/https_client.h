// One HTTPS request, blocking: `lockstep node join` before the node has a certificate of its own.
#pragma once

#include <string>

#include "ports/http.h"

namespace lockstep {

struct HttpsServer {
  std::string host;
  std::uint16_t port = 0;
  // Exactly one of these: the cluster's CA as a file, or its fingerprint as a join token carries it.
  std::string ca_file, ca_sha256;
};

Result<ApiClient::Reply> https_post(const HttpsServer& server, const std::string& target, const std::string& body,
                                    Duration timeout = seconds(30));

}  // namespace lockstep
