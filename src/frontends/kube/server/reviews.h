// Reviews: questions that are answered and forgotten: who am I, whose token is this, may they, what may I.
#pragma once

#include "frontends/kube/server/account_tokens.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/role_book.h"

namespace lockstep::kube {

// Whether the kind is one of these; then create_review() answers it.
bool is_review(const Kind& kind);
void create_review(const Asked& request, const RoleBook& roles, const TokenPowers& tokens);

}  // namespace lockstep::kube
