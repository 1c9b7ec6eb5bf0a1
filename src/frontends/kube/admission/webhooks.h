// Webhooks: servers of others that change objects or refuse requests at the door. What is asked of whom, and what an
// answer means; who makes the calls is not here.
// Source: kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers.
#pragma once

#include "base/result.h"
#include "frontends/kube/admission/attempt.h"

namespace lockstep::kube {

struct Webhook {
  enum class Sort : unsigned char { kMutating, kValidating } sort = Sort::kValidating;
  std::string name, configuration;
  json::value spec;
  ObjectForm form = {};  // in which it is to see the objects

  bool fails_closed() const;
  bool asks_again() const;         // when others changed the object after it
  bool is_safe_to_try() const;     // a dry run may call it
  std::int64_t timeout_s() const;  // 1 … 30
};

// Those whose rules and selectors take the attempt in, in the order in which they are asked. With matchPolicy
// Equivalent a rule may name another form of the objects: they are sent in that one then. Conditions are not looked
// at.
std::vector<Webhook> webhooks_for(const Tables& tables, Webhook::Sort sort, const AdmissionAttempt& attempt);
// Whether any could be asked of anything: most clusters have none.
bool has_webhooks(const Tables& tables);

// matchConditions. A Status: they cannot be judged, and the webhook fails closed.
Answered<bool> conditions_hold(const Webhook& webhook, const AdmissionAttempt& attempt);

struct WebhookTarget {
  std::string address;  // what is dialled
  std::uint16_t port = 443;
  std::string server_name, path, ca_pem;
  std::string url;          // as failures name it
  std::string pod_ns, pod;  // the endpoint's pod, which is reached by its node; "" = the address is dialled
};
// {"namespace", "name", "port", "path"}: one of the Service's ready endpoints.
Result<WebhookTarget> target_of_service(const Tables& tables, const json::value& said);
// A Service's webhook is at one of its ready endpoints.
Result<WebhookTarget> target_of(const Tables& tables, const Webhook& webhook);

// The AdmissionReview to be sent.
std::string review_text(const AdmissionAttempt& attempt, const std::string& uid);

struct WebhookReply {
  std::optional<Status> refused;
  std::optional<json::value> patch;  // of JSON Patch
  std::vector<std::string> warnings;
};
// Error: it is no answer to that review.
Result<WebhookReply> read_reply(const Webhook& webhook, std::string_view body, const std::string& uid);

// Why the call failed, as the caller of a webhook that fails closed is told.
Status call_failed(const Webhook& webhook, const std::string& url, std::string_view why);

// What is wrong with the expressions of a configuration or a policy that is to be stored: a condition that cannot be.
std::vector<Cause> expression_faults(std::string_view type, const json::object& tree);

}  // namespace lockstep::kube
