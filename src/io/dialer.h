// How an agent reaches its controller and other agents: TLS with its own certificate, an HTTP upgrade, then a raw
// stream. The server is known by the cluster's CA and by what its certificate says: the role "controller", or a node's
// name. Its host name does not matter.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ports/http.h"
#include "ports/loop.h"

namespace lockstep {

struct DialAsk {
  std::string host;
  std::uint16_t port = 0;
  TlsFiles tls;
  std::string target;       // "/v1/link"
  std::string protocol;     // "lockstep-link/1"
  std::string node;         // whose agent it must be: "n1"; "" = the controller
  std::string certificate;  // serial that the agent must show; "" = any
  Duration timeout = seconds(10);
};
using DialDone = std::function<void(Result<std::unique_ptr<Stream>>)>;

// kNotFound: the machine was reached, and nobody listens there.
// done is called once, on the loop's thread, never from inside this call. The name is resolved off the loop.
void dial_tls(EventLoop& loop, DialAsk ask, DialDone done);

}  // namespace lockstep
