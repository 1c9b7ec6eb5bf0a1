// HTTP as seen from above: requests in, responses out, and a raw stream after an upgrade. Also the client's side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ports/loop.h"

namespace lockstep {

// Who is at the other end, as proven by the transport.
// The OU of somebody whom a front end knows, and nobody else.
inline constexpr const char* kGuestRole = "guest";

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
  std::vector<std::string> certificate_groups;     // O: of a guest, whose CN is "guest:NAME"
  std::string certificate_serial;                  // hex, lower case, as the certificate was signed with
  std::string address;                             // TLS: the other end's IP, without the port
};

struct HttpRequest {
  std::string method;                                        // "GET"
  std::string path;                                          // decoded, without the query
  std::map<std::string, std::string, std::less<>> query;     // decoded; of a name that comes again its last value
  std::vector<std::pair<std::string, std::string>> earlier;  // and those before it, in order
  std::map<std::string, std::string, std::less<>> headers;   // names in lower case
  std::string body;
  Peer peer;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::map<std::string, std::string> headers;
};

// One request that waits for its answer. Answer exactly once: respond(), stream() or upgrade(). May be kept and
// answered later, on the loop's thread. Dropping it unanswered sends 500.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  // The head at once (its body is left out), then what is written to the stream, until it is closed; dropped without
  // close() the client sees an answer that was cut off. It takes the connection with it. Null: the client is gone, or
  // has been refused (its request follows one that is still unanswered, it has too many streams, it asked for the head
  // only). Either way the exchange is answered.
  virtual std::unique_ptr<Stream> stream(HttpResponse head) = 0;
  // 101 Switching Protocols; the connection becomes a stream. Null: the client is gone, or its request cannot be
  // upgraded and has just been told so (426, 400). Either way the exchange is answered.
  virtual std::unique_ptr<Stream> upgrade(const std::string& protocol) = 0;
  // The same with further headers, where the connection can say them.
  virtual std::unique_ptr<Stream> upgrade_with(const std::string& protocol,
                                               const std::map<std::string, std::string>& /*headers*/) {
    return upgrade(protocol);
  }
  // The client closed before the answer; called at once when it has already.
  virtual void on_gone(std::function<void()> callback) = 0;
};
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

// What one server gives away. A caller is a local user, a certificate, or an address that showed no certificate; root
// and the server's own user are never refused for the sake of others.
struct HttpLimits {
  std::size_t header_bytes = 64 << 10;
  std::size_t body_bytes = 64 << 20;  // larger ones are answered 413
  // The bound of one body, asked when the head is read (method, path, headers, peer). Empty: body_bytes for everybody.
  std::function<std::size_t(const HttpRequest& head)> body_bound{};
  std::size_t stranger_body_bytes = 16 << 10;  // at most, whatever body_bound says, without a certificate
  // The user that a head proves by itself, without a certificate (by a token): then they are no stranger, and what the
  // connection holds is counted as that user's, not as its address's. "" or unset: none.
  std::function<std::string(const HttpRequest& head)> proven_user{};

  std::size_t connections = 16'000;          // of everybody, upgraded ones included; the last eighth is reserved
  std::size_t memory_bytes = 512u << 20;     // of requests under way and answers that nobody has read yet
  std::size_t handshakes_per_second = 1000;  // TLS connections begun, in turn by address

  Duration header_timeout = seconds(10);        // for a head, and for a connection's first words
  Duration idle_timeout = minutes(5);           // between requests of a kept-alive connection
  Duration drain_timeout = seconds(30);         // an answer that is not read at all
  std::size_t bytes_per_second_min = 16 << 10;  // beyond these times: of a body, and of an answer that is read
};

struct TlsFiles {
  std::string ca, certificate, key;  // PEM paths
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // mode: of the socket file, 0666 for everybody (callers are told apart by the kernel's credentials), 0600 for the
  // server's own user. Refuses when someone listens.
  virtual Result<void> listen_unix(const std::string& path, unsigned mode) = 0;
  // port 0 = any; returns the port. Client certificates are asked for, not required.
  virtual Result<std::uint16_t> listen_tls(const std::string& address, std::uint16_t port, const TlsFiles& tls) = 0;
  // Connections that begin from now on are shown this certificate; those that are open stay.
  virtual Result<void> renew_tls(const TlsFiles& tls) = 0;
};

// A blocking client for the command line: one connection, kept alive between calls.
class ApiClient {
 public:
  virtual ~ApiClient() = default;
  struct Reply {
    int status = 0;
    std::string content_type, body;
  };
  // Errors: kUnavailable when nothing listens (says where it looked and what to do). timeout: how long nothing at all
  // may come; kForever = wait.
  virtual Result<Reply> call(std::string_view method, std::string_view target, std::string_view body = {},
                             Duration timeout = kForever) = 0;
  // From now on each call tells once when its answer takes longer than `after`. An empty `tell`: none does.
  virtual void on_silence(Duration /*after*/, std::function<void()> /*tell*/) {}
  // Upgrades the connection; afterwards the client owns the raw descriptor (blocking) and this object is spent.
  virtual Result<int> upgrade(std::string_view target, std::string_view protocol, std::string_view body = {}) = 0;
};

}  // namespace lockstep
