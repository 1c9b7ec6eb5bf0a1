// One HTTPS request, blocking: `lockstep node join` before the node has a certificate of its own, and the renewal of
// one.
#pragma once

#include <string>

#include "ports/http.h"

namespace lockstep {

struct HttpsServer {
  std::string host;
  std::uint16_t port = 0;
  // Exactly one of these: the cluster's CA as a file, or its fingerprint as a join token carries it.
  std::string ca_file, ca_sha256;
  std::string certificate, key;  // ours, with ca_file; "" = the server does not learn who asks
  // With a fingerprint: whatever the clocks say. For a question whose answer tells how far they are apart, no more.
  bool ignores_time = false;
};

// kDenied: whoever answers is not whom the CA or the fingerprint names. body: "" = a question (GET).
Result<ApiClient::Reply> https_call(const HttpsServer& server, const std::string& target, const std::string& body = {},
                                    Duration timeout = seconds(30));

}  // namespace lockstep
