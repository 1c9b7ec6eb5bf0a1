// Requests for certificates: a request that is one, usages that are known, a signer by its full name.
// Source: messages are those of k8s.io/kubernetes pkg/apis/certificates/validation.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/place.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE REQUEST-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE REQUEST-----";
constexpr std::int64_t kShortest = 600;

bool is_request(const std::string& encoded) {
  const auto text = bytes_of_base64(encoded);
  const auto from = text ? text->find("-----BEGIN ") : std::string::npos;
  return from != std::string::npos && text->compare(from, kBegin.size(), kBegin) == 0 &&
         text->find(kEnd, from) != std::string::npos;
}

class CertificateRequestRules final : public KindRules {
 public:
  void prepare_update(json::object& tree, const json::object& old, std::string_view subresource) const override {
    tree["spec"] = part(old, "spec");
    if (subresource != "approval")
      return;
    // Nothing but what was decided.
    json::object status = part(old, "status").is_object() ? part(old, "status").get_object() : json::object();
    if (const json::array* conditions = member_array(part(tree, "status"), "conditions"))
      status["conditions"] = *conditions;
    tree["status"] = std::move(status);
  }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old)
      return;
    if (!is_request(spec["request"].text()))
      spec["request"].invalid("PEM block type must be CERTIFICATE REQUEST");
    const auto usages = spec["usages"].each();
    if (usages.empty())
      spec["usages"].required();
    std::set<std::string> seen;
    for (const Place& usage : usages) {
      usage.one_of({"any",
                    "cert sign",
                    "client auth",
                    "code signing",
                    "content commitment",
                    "crl sign",
                    "data encipherment",
                    "decipher only",
                    "digital signature",
                    "email protection",
                    "encipher only",
                    "ipsec end system",
                    "ipsec tunnel",
                    "ipsec user",
                    "key agreement",
                    "key encipherment",
                    "microsoft sgc",
                    "netscape sgc",
                    "ocsp signing",
                    "s/mime",
                    "server auth",
                    "signing",
                    "timestamping"});
      if (!seen.insert(usage.text()).second)
        usage.duplicate();
    }
    check_signer(spec["signerName"]);
    if (const Place life = spec["expirationSeconds"]; life.number().value_or(kShortest) < kShortest)
      life.invalid("may not specify a duration less than 600 seconds (10 minutes)");
  }

 private:
  static void check_signer(const Place& signer) {
    const std::string name = signer.text();
    if (name.empty())
      return signer.required();
    if (name == "kubernetes.io/legacy-unknown")
      return signer.invalid("the legacy signerName is not allowed via this API version");
    const auto slash = name.find('/');
    if (slash == std::string::npos || slash == 0 || slash + 1 == name.size() || name.find('/', slash + 1) != name.npos)
      signer.invalid("must be a fully qualified domain and path of the form \"example.com/signer-name\"");
  }
};

}  // namespace

const KindRules& certificate_request_rules() {
  static const CertificateRequestRules rules;
  return rules;
}

}  // namespace lockstep::kube
