// TLS without sockets: an engine turns received bytes into plain ones and back; the stream around it moves them. Both
// sides trust exactly one authority, the cluster's CA.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/http.h"

namespace lockstep {

// What a verified certificate says of its holder.
struct CertificateName {
  bool present = false;
  std::string name;                 // CN
  std::string role;                 // OU
  std::string serial;               // hex, lower case
  std::vector<std::string> groups;  // O
};

// A server that somebody else runs, and how we show ourselves to it.
struct WebTrust {
  std::string server_name;               // what its certificate must be for, a name or an address
  std::string ca_pem;                    // "" = the authorities of the system
  bool anybody = false;                  // whoever answers
  std::string certificate_pem, key_pem;  // "" = none
};

class TlsEngine {
 public:
  ~TlsEngine();
  // Ciphertext in; each piece of plain text goes to on_plain. An error is final and says why in words.
  Result<void> feed(std::string_view ciphertext, const std::function<void(std::string_view)>& on_plain);
  // Plain text in; call take_output() for the records. Only when ready().
  Result<void> seal(std::string_view plain);
  std::string take_output();
  void finish();       // queues the orderly end
  bool ready() const;  // the handshake is complete
  CertificateName peer() const;
  std::string_view protocol() const;  // that both agreed on ("h2"); "" = none was named

 private:
  friend class TlsContext;
  struct Inner;
  explicit TlsEngine(std::unique_ptr<Inner> inner);
  std::unique_ptr<Inner> inner_;
};

class TlsContext {
 public:
  // A server asks its clients for a certificate and accepts those without.
  static Result<std::unique_ptr<TlsContext>> server(const TlsFiles& files);
  // certificate and key may be empty: a client without a name.
  static Result<std::unique_ptr<TlsContext>> client(const TlsFiles& files);
  // Trusts the CA with this fingerprint (SHA-256, hex), which the server sends along with its certificate.
  static Result<std::unique_ptr<TlsContext>> pinned_client(const std::string& ca_sha256, bool ignores_time = false);
  static Result<std::unique_ptr<TlsContext>> web_client(const WebTrust& trust);
  ~TlsContext();

  // Of a server: takes the first of these that a client names ("h2", "http/1.1").
  void offer(const std::vector<std::string>& protocols);

  std::unique_ptr<TlsEngine> open() const;  // null: out of memory

 private:
  struct Pin;
  TlsContext();
  void* context_ = nullptr;  // SSL_CTX
  std::unique_ptr<Pin> pin_;
  std::string server_name_;  // of a web client
  std::string offered_;      // each behind its length
  bool is_server_ = false;
};

}  // namespace lockstep
