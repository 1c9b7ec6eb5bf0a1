// Tokens of service accounts: signed claims that say which account, for whom, until when, and what they are bound to.
// Source: kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin ("Bound service account tokens").
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/machinery/status.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/user.h"

namespace lockstep::kube {

inline constexpr const char* kIssuer = "https://kubernetes.default.svc.cluster.local";

struct TokenPowers {
  std::function<std::string(std::string_view claims)> sign;
  std::function<std::optional<std::string>(std::string_view token)> verify;  // its claims, if we signed it
  std::function<std::string()> key_set;
};

struct TokenHolder {
  KubeUser user;
  std::vector<std::string> audiences;
};

// Nothing: the token is not ours, has ended, or its account or what it is bound to is not there any more.
// now_s: of the wall clock.
std::optional<TokenHolder> holder_of(const TokenPowers& powers, const Tables& tables, std::string_view token,
                                     std::int64_t now_s);

// Whom the claims of a token of ours name: "system:serviceaccount:NAMESPACE:NAME". Whether they still hold is not
// looked at.
std::string subject_of(std::string_view claims);

// Where others find out whether a token is ours (OpenID Connect Discovery 1.0, section 4): the answer at that path.
std::optional<HttpResponse> answer_issuer(std::string_view path, const TokenPowers& powers);

// POST …/serviceaccounts/NAME/token.
void create_token(const Asked& request, const TokenPowers& powers, const std::string& token_id);

}  // namespace lockstep::kube
