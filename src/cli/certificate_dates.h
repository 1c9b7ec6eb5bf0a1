// From when and until when a certificate is valid. The command line is without OpenSSL, and a certificate has its dates
// in a fixed place (RFC 5280, 4.1): this walks there and trusts nothing of what it reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

struct CertificateDates {
  std::int64_t from_s = 0, until_s = 0;  // since the epoch
};
// Of the first certificate in a PEM text; nullopt where there is none.
std::optional<CertificateDates> certificate_dates(std::string_view pem);

}  // namespace lockstep
