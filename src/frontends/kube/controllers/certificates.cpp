// Certificate requests: those for clients of this API are signed once they are approved, and all go after a while.
// Source: kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests (signers, life of requests).
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/encodings.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kRequests = "certificatesigningrequests.certificates.k8s.io";
constexpr const char* kClientSigner = "kubernetes.io/kube-apiserver-client";
constexpr Duration kLongest = hours(24 * 365);
// How long requests stay: signed, denied or failed ones, and those that nobody has decided on.
constexpr Duration kDecidedLife = hours(1), kPendingLife = hours(24);

// Why this signer signs no such request; "": it does.
std::string unfit(const json::value& spec, const RequestSigner::Subject& subject) {
  bool for_client = false;
  if (const json::array* usages = member_array(spec, "usages"))
    for (const json::value& one : *usages) {
      const std::string_view usage = text_of(one);
      for_client |= usage == "client auth";
      if (usage != "client auth" && usage != "digital signature" && usage != "key encipherment")
        return "usages did not match " + std::string(usage);
    }
  if (!for_client)
    return "usages must contain \"client auth\"";
  if (subject.name.empty())
    return "subject's common name is empty";
  if (subject.name.starts_with("system:node:") ||
      std::ranges::find(subject.groups, "system:masters") != subject.groups.end())
    return format("use of {} signer with the user {} or the group system:masters is not allowed", kClientSigner,
                  subject.name);
  return "";
}

class CertificateController final : public Reconciler {
 public:
  explicit CertificateController(RequestSigner signer) : signer_(std::move(signer)) {}
  std::string_view name() const override { return "certificates"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kRequests)
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto request = view.find(kRequests, "", std::get<2>(key));
    if (!request || is_deleting(*request))
      return;
    json::object body = body_of(*request);
    json::object status = part(body, "status").is_object() ? part(body, "status").get_object() : json::object();
    const bool failed = has_condition(status, "Failed"), denied = has_condition(status, "Denied");
    const bool approved = has_condition(status, "Approved"), done = !text_in(status, "certificate").empty();
    if (signer_.sign && approved && !denied && !failed && !done &&
        text_in(part(body, "spec"), "signerName") == kClientSigner) {
      answer(view, now, part(body, "spec"), status);
      return wish_status(out, *request, std::move(body), std::move(status));
    }
    expire(view, now, *request, body, approved || denied || failed || done, out);
  }

 private:
  // Puts the certificate into the status, or why there is none.
  void answer(const ObjectView& view, Instant now, const json::value& spec, json::object& status) const {
    const auto request = bytes_of_base64(text_in(spec, "request"));
    const auto subject = signer_.subject(request.value_or(""));
    const std::string why = subject.ok() ? unfit(spec, *subject) : subject.error().message;
    if (!why.empty())
      return fail(view, now, status, "SignerValidationFailure", why);
    const auto asked = integer_in(spec, "expirationSeconds");
    const auto made = signer_.sign(*request, *subject, asked ? std::min(seconds(*asked), kLongest) : kLongest);
    if (!made.ok())
      return fail(view, now, status, "SigningFailure", made.error().message);
    status["certificate"] = base64_text(*made);
  }

  static void fail(const ObjectView& view, Instant now, json::object& status, const char* reason,
                   const std::string& why) {
    json::value& conditions = status["conditions"];
    const std::string time = time_text(now, view.wall_offset());
    (conditions.is_array() ? conditions.get_array() : conditions.emplace_array())
        .push_back(json::object{{"type", "Failed"},
                                {"status", "True"},
                                {"reason", reason},
                                {"message", why},
                                {"lastUpdateTime", time},
                                {"lastTransitionTime", time}});
  }

  static void expire(const ObjectView& view, Instant now, const Object& request, const json::object& body, bool decided,
                     Wishes& out) {
    const auto made = parse_timestamp(text_in(part(body, "metadata"), "creationTimestamp"));
    if (!made)
      return;
    const WallTime end{made->us + (decided ? kDecidedLife : kPendingLife).us};
    if (end > wall_time(view, now))
      return out.look_again(instant_of(view, end));
    out.add(RemoveObject{request.type, request.meta.ns, request.meta.name, request.meta.seq});
  }

  const RequestSigner signer_;
};

}  // namespace

std::shared_ptr<const Reconciler> certificate_controller(RequestSigner signer) {
  return std::make_shared<CertificateController>(std::move(signer));
}

}  // namespace lockstep::kube
