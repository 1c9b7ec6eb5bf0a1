#include <gtest/gtest.h>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload_rig.h"

namespace lockstep::kube {
namespace {

constexpr const char* kRequests = "certificatesigningrequests.certificates.k8s.io";

// A signer whose requests are "NAME/GROUP".
RequestSigner signer(Duration& valid) {
  return {.subject = [](const std::string& pem) -> Result<RequestSigner::Subject> {
            if (pem == "rubbish")
              return Error{Errc::kInvalid, "cannot read the certificate request", {}};
            return RequestSigner::Subject{pem.substr(0, pem.find('/')), {pem.substr(pem.find('/') + 1)}};
          },
          .sign = [&valid](const std::string&, const RequestSigner::Subject& subject,
                           Duration asked) -> Result<std::string> {
            valid = asked;
            return "certificate of " + subject.name;
          }};
}

struct CertificateRig : WorkloadRig {
  CertificateRig() : WorkloadRig({certificate_controller(signer(valid))}) {}
  // request: in base64.
  void ask(const char* name, const char* request, const char* conditions,
           const char* usages = R"(["client auth","digital signature"])") {
    std::string time = time_text(now, {});
    put(kRequests,
        R"({"metadata":{"name":")" + std::string(name) + R"(","creationTimestamp":")" + time +
            R"("},"spec":{"signerName":"kubernetes.io/kube-apiserver-client","expirationSeconds":600,"usages":)" +
            usages + R"(,"request":")" + request + R"("},"status":{"conditions":)" + conditions + "}}");
  }
  json::object look(const char* name) const {
    const auto at = tables.objects.find({kRequests, "", name});
    return at == tables.objects.end() ? json::object() : tree_of(*at->second, {"", ""}, {});
  }
  std::string certificate(const char* name) const { return text_in(part(look(name), "status"), "certificate"); }
  Duration valid;
};

constexpr const char* kApproved = R"([{"type":"Approved","status":"True"}])";

TEST(Certificates, ApprovedRequestsAreSigned) {
  CertificateRig rig;
  rig.ask("waits", "YW5uL2Rldg==", "[]");  // ann/dev
  rig.ask("fine", "YW5uL2Rldg==", kApproved);
  rig.ask("denied", "YW5uL2Rldg==", R"([{"type":"Approved","status":"True"},{"type":"Denied","status":"True"}])");
  rig.run();
  EXPECT_EQ(rig.certificate("waits"), "");
  EXPECT_EQ(rig.certificate("denied"), "");
  EXPECT_EQ(rig.certificate("fine"), "Y2VydGlmaWNhdGUgb2YgYW5u");  // certificate of ann
  EXPECT_EQ(rig.valid, minutes(10));
}

TEST(Certificates, WhatIsNotSignedSaysWhy) {
  CertificateRig rig;
  rig.ask("masters", "YW5uL3N5c3RlbTptYXN0ZXJz", kApproved);  // ann/system:masters
  rig.ask("rubbish", "cnViYmlzaA==", kApproved);
  rig.ask("server", "YW5uL2Rldg==", kApproved, R"(["server auth","client auth"])");
  rig.run();
  const std::pair<const char*, const char*> cases[] = {
      {"masters", "system:masters is not allowed"},
      {"rubbish", "cannot read the certificate request"},
      {"server", "usages did not match server auth"},
  };
  for (const auto& [name, words] : cases) {
    EXPECT_EQ(rig.certificate(name), "") << name;
    const json::value status = part(rig.look(name), "status");
    const json::value* failed = find_condition(status.as_object(), "Failed");
    ASSERT_NE(failed, nullptr) << name;
    EXPECT_NE(text_in(*failed, "message").find(words), std::string::npos) << json::serialize(*failed);
  }
}

TEST(Certificates, RequestsGoAfterAWhile) {
  CertificateRig rig;
  rig.ask("waits", "YW5uL2Rldg==", "[]");
  rig.ask("fine", "YW5uL2Rldg==", kApproved);
  rig.advance(minutes(59));
  EXPECT_EQ(rig.names(kRequests).size(), 2u);
  rig.advance(minutes(2));
  EXPECT_EQ(rig.names(kRequests).size(), 1u);
  rig.advance(hours(24));
  EXPECT_EQ(rig.names(kRequests).size(), 0u);
}

}  // namespace
}  // namespace lockstep::kube
