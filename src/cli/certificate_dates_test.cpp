#include "cli/certificate_dates.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

// From 2026-03-01 12:00 until 2051-04-07 05:20: one date of each kind.
constexpr const char* kPem = R"(-----BEGIN CERTIFICATE-----
MIIBBzCBr6ADAgECAgFNMAoGCCqGSM49BAMCMA0xCzAJBgNVBAMMAm4xMCAXDTI2
MDMwMTEyMDAwMFoYDzIwNTEwNDA3MDUyMDAwWjANMQswCQYDVQQDDAJuMTBZMBMG
ByqGSM49AgEGCCqGSM49AwEHA0IABClXevnjiOsvUdN8mDlEMfGF83qiztjrlfj1
+pBn6o4g1XcshPaX4D74kt5s1tTCaqXoduBccg3KP5CztaLRIvYwCgYIKoZIzj0E
AwIDRwAwRAIgMoTCHsTZWIwLdsI0RNJPSeTYehcZsFhk3YhNWss19isCIBO28AKH
2xmAdYRpEVjmXfcys0K4d8ipnF9BZSQsvZrD
-----END CERTIFICATE-----
)";

TEST(CertificateDates, AreReadFromItsFixedPlace) {
  const auto dates = certificate_dates(kPem);
  ASSERT_TRUE(dates);
  EXPECT_EQ(dates->from_s, 1772366400);
  EXPECT_EQ(dates->until_s, 2564457600);
}

TEST(CertificateDates, NothingThatIsCutOrChangedIsReadBeyondItsEnd) {
  const std::string pem = kPem;
  EXPECT_FALSE(certificate_dates(""));
  EXPECT_FALSE(certificate_dates("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"));
  const std::string end = "-----END CERTIFICATE-----\n";
  for (std::size_t size = 28; size < pem.size() - end.size(); ++size)
    (void)certificate_dates(pem.substr(0, size) + end);
  for (std::size_t at = 28; at < pem.size() - end.size(); ++at)
    for (const char c : {'/', 'A', '=', 'g'}) {
      std::string changed = pem;
      changed[at] = c;
      (void)certificate_dates(changed);
    }
}

}  // namespace
}  // namespace lockstep
