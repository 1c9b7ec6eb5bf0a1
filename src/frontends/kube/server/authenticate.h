// Who asks, by what the connection or the request proves, and whether they may.
#pragma once

#include "frontends/kube/machinery/status.h"
#include "frontends/kube/server/account_tokens.h"
#include "frontends/kube/server/role_book.h"
#include "frontends/kube/server/user.h"
#include "routes/front_end.h"

namespace lockstep::kube {

// A user of the cluster (socket, certificate), whoever a bearer token names, or nobody ("system:anonymous"). Then
// whoever they speak for, if they may: Impersonate-User and its companions.
Answered<KubeUser> authenticate(const FrontVisit& visit, const RoleBook& roles, const TokenPowers& tokens);

// 403, in the words that clients know.
Status refused(const KubeUser& user, const Attempt& attempt);

}  // namespace lockstep::kube
