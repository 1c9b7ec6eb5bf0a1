// HTTP as seen from above: requests in, responses out, and a raw stream after an upgrade. Also the client's side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ports/loop.h"

namespace lockstep {

// Who is at the other end, as proven by the transport.
struct Peer {
  enum class How : unsigned char {
    kNobody,       // TLS without a client certificate
    kUnixSocket,   // kernel's peer credentials
    kCertificate,  // signed by the cluster's CA
    kForwarded,    // an agent vouches for a local user of its realm
  } how = How::kNobody;
  std::uint32_t uid = 0, gid = 0;
  std::int32_t pid = 0;
  std::string realm;                               // kForwarded: the agent's realm; kUnixSocket: "local"
  std::string certificate_name, certificate_role;  // CN ("node:n1") and OU ("compute", "broker:REALM", "admin")
};

struct HttpRequest {
  std::string method;                                       // "GET"
  std::string path;                                         // decoded, without the query
  std::map<std::string, std::string, std::less<>> query;    // decoded
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;
  Peer peer;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
};

// One request that waits for its answer. Answer exactly once: respond() or upgrade(). May be kept and answered later,
// on the loop's thread. Dropping it unanswered sends 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  // 101 Switching Protocols; the connection becomes a stream.
  virtual std::unique_ptr<Stream> upgrade(const std::string& protocol) = 0;
  // The client closed before the answer; called at once when it has already.
  virtual void on_gone(std::function<void()> callback) = 0;
};
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

struct HttpLimits {
  std::size_t header_bytes = 64 << 10;
  std::size_t body_bytes = 64 << 20;      // larger ones are answered 413
  std::size_t connections = 16'000;       // further ones are closed at once
  Duration header_timeout = seconds(10);  // a connection that says nothing for this long is closed
  Duration idle_timeout = minutes(5);     // between requests of a kept-alive connection
};

struct TlsFiles {
  std::string ca, certificate, key;  // PEM paths
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // The socket file gets mode 0666: callers are told apart by the kernel's credentials. Refuses when someone listens.
  virtual Result<void> listen_unix(const std::string& path) = 0;
  // port 0 = any; returns the port. Client certificates are asked for, not required.
  virtual Result<std::uint16_t> listen_tls(const std::string& address, std::uint16_t port, const TlsFiles& tls) = 0;
};

// A blocking client for the command line: one connection, kept alive between calls.
class ApiClient {
 public:
  virtual ~ApiClient() = default;
  struct Reply {
    int status = 0;
    std::string content_type, body;
  };
  // Errors: kUnavailable when nothing listens (says where it looked and what to do). timeout kForever = wait.
  virtual Result<Reply> call(std::string_view method, std::string_view target, std::string_view body = {},
                             Duration timeout = kForever) = 0;
  // Upgrades the connection; afterwards the client owns the raw descriptor (blocking) and this object is spent.
  virtual Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view body = {}) = 0;
};

}  // namespace lockstep
