// The controller's own certificate: made at the start, and made anew while the controller runs, long before it ends.
#pragma once

#include "io/pki.h"
#include "ports/http.h"

namespace lockstep {

// For administrators, in the last year of the CA; "" = not yet.
std::string authority_end_text(const ClusterCa& ca);

class OwnCertificate {
 public:
  static Result<OwnCertificate> of(const ClusterCa& ca, CertificateAsk ask);
  const TlsFiles& files() const { return files_; }
  // Looks now and then from here on. Who connects afterwards is shown the new one.
  void keep(EventLoop& loop, HttpServer& server);

 private:
  OwnCertificate(const ClusterCa& ca, CertificateAsk ask) : ca_(&ca), ask_(std::move(ask)) {}
  Result<bool> renew();  // true: there is a new one

  const ClusterCa* ca_;
  CertificateAsk ask_;
  TlsFiles files_;
  std::string serial_;
};

}  // namespace lockstep
