#include "apps/lockstepd/own_certificate.h"

#include <algorithm>

#include "base/log_line.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/clock.h"

namespace lockstep {

namespace {
constexpr Duration kLookAtMost = hours(1), kLookAtLeast = millis(200), kTellBefore = hours(24 * 365);
}

std::string authority_end_text(const ClusterCa& ca) {
  const auto facts = read_certificate(ca.certificate_pem());
  const Duration left = facts ? Duration{facts->expires.us - RealClock().wall().us} : kForever;
  if (left > kTellBefore)
    return {};
  return format("the cluster's CA ends in {} days, and all certificates with it: see docs/joining.md, Certificates",
                left.seconds() / 86400);
}

Result<OwnCertificate> OwnCertificate::of(const ClusterCa& ca, CertificateAsk ask) {
  OwnCertificate own(ca, std::move(ask));
  TRY(own.renew());
  return own;
}

Result<bool> OwnCertificate::renew() {
  files_ = TRY(ca_->issue("controller", ask_));
  const auto facts = TRY(read_certificate(TRY(read_plain(files_.certificate))));
  return std::exchange(serial_, facts.serial) != facts.serial;
}

void OwnCertificate::keep(EventLoop& loop, HttpServer& server) {
  const Duration look{std::clamp(ask_.valid.us / 50, kLookAtLeast.us, kLookAtMost.us)};
  loop.after(look, [this, &loop, &server] {
    const auto renewed = renew();
    const auto shown = renewed && *renewed ? server.renew_tls(files_) : Result<void>();
    if (!renewed || !shown)
      log_line(LogLevel::kWarning, format("lockstepd: the controller's certificate is not renewed: {}",
                                          renewed ? shown.error().message : renewed.error().message));
    else if (*renewed)
      log_line(LogLevel::kInfo, "lockstepd: the controller has renewed its certificate");
    keep(loop, server);
  });
}

}  // namespace lockstep
