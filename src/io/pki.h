// The cluster's own certificate authority: ECDSA P-256, made at the first start. A certificate's CN says who its holder
// is ("node:n1"), its OU in which role ("controller", "compute", "broker:REALM"), and its serial number whether it
// still counts: the node's record names the one that does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ports/http.h"

namespace lockstep {

inline constexpr const char* kControllerRole = "controller";

// Of the certificates that a CA signs: a year, or $LOCKSTEP_CERTIFICATE_SECONDS, which is for tests.
Duration certificate_life();

struct CertificateAsk {
  std::string name;                // CN, at most 64 characters
  std::string role;                // OU, at most 64 characters
  std::vector<std::string> hosts;  // names and addresses it is reached by
  Duration valid = certificate_life();
  std::vector<std::string> groups = {};  // O, at most 64 characters each; such a certificate serves clients only
};

class ClusterCa {
 public:
  // Reads directory/ca.pem and ca.key (0600), or makes both. One without the other is refused, never replaced.
  static Result<std::unique_ptr<ClusterCa>> open_or_make(const std::string& directory, const std::string& cluster_name);
  ~ClusterCa();

  const std::string& certificate_pem() const;
  std::string certificate_path() const;
  const std::string& fingerprint() const;  // SHA-256 of the certificate, hex: what join tokens carry
  // 64 hexadecimal digits that nobody can know without the CA's key, the same at every start.
  std::string secret_for(std::string_view purpose) const;
  // False once ca.pem or ca.key is gone, or holds something else than it did when this was opened.
  bool is_on_disk() const;
  bool is_usable_on_disk() const;  // what lies there, whichever it is: else no controller starts with it

  // For a request made by make_key_and_request(): takes its public key, and nothing else of what it says.
  Result<std::string> sign(const std::string& request_pem, const CertificateAsk& ask) const;
  // For a guest's request with a key of any common kind and size: whom read_request() named.
  Result<std::string> sign_guest(const std::string& request_pem, const std::string& name,
                                 const std::vector<std::string>& groups, Duration valid) const;
  // A new key and a certificate (with the CA behind it) as directory/STEM.key and STEM.pem; kept while they are valid
  // for another third of ask.valid and say the same. Asked for again now and then, it renews itself.
  Result<TlsFiles> issue(const std::string& stem, const CertificateAsk& ask) const;

 private:
  struct Inner;
  explicit ClusterCa(std::unique_ptr<Inner> inner);
  std::unique_ptr<Inner> inner_;
};

// Whether the key in one text belongs to the certificate in the other.
bool belong_together(const std::string& key_pem, const std::string& certificate_pem);

// Whether the certificate can be read, the key is its own, and the CA has signed it. The error names the file.
Result<void> check_usable(const TlsFiles& files);

struct KeyAndRequest {
  std::string key_pem, request_pem;
};
Result<KeyAndRequest> make_key_and_request(const std::string& name);

// What a certificate request asks for: the parts CN and O of its subject. It is signed by its own key.
struct RequestFacts {
  std::string name;
  std::vector<std::string> groups;
};
Result<RequestFacts> read_request(const std::string& pem);

struct CertificateFacts {
  std::string name, role;
  std::string serial;  // hex, lower case, as TLS tells it of a peer
  std::string fingerprint;
  WallTime expires;
  Duration life;  // from its making on
};
Result<CertificateFacts> read_certificate(const std::string& pem);

// Replaces path in one step (temporary file, fsync, rename).
Result<void> write_file_durably(const std::string& path, std::string_view content, unsigned mode);

}  // namespace lockstep
