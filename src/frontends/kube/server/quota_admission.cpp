#include "frontends/kube/server/quota_admission.h"

#include "frontends/kube/controllers/quota_ledger.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

Answered<std::vector<CommandBody>> count_in_quotas(const Request& request, const json::object& tree,
                                                   const json::object* old) {
  QuotaLedger ledger(request.visit->read()->tables, request.target.ns);
  if (const auto refused = ledger.count(request.kind->type, tree, old))
    return Status::forbidden(request.resource(), text_in(tree.at("metadata"), "name"), *refused);
  return ledger.take();
}

}  // namespace lockstep::kube
