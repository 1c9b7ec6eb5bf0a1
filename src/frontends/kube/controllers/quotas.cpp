// What is used of each quota: counted anew whenever something in its namespace has changed. What is being made counts
// itself in the same commit (server/quota_admission.cpp); this brings down what has gone.
#include <boost/json/parse.hpp>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/quota.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kQuotas = "resourcequotas";

class QuotaController final : public Reconciler {
 public:
  std::string_view name() const override { return "quotas"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    for (const auto& [key, quota] : view.in(kQuotas, changed.meta.ns))
      if (changed.type != kQuotas || quota->meta.name == changed.meta.name)
        out.push_back(key);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant, Wishes& out) const override {
    const auto quota = view.find(kQuotas, std::get<1>(key), std::get<2>(key));
    if (!quota || is_deleting(*quota))
      return;
    json::object body = body_of(*quota);
    const Amounts bounds = bounds_of(body);
    Amounts used;
    for (const auto& [name, bound] : bounds) used[name] = Quantity(0);
    const std::string& ns = std::get<1>(key);
    for (const auto& [type, count] : view.types_in(ns))
      for (const auto& [name, object] : view.in(type, ns)) {
        const json::object tree = body_of(*object);
        if (!quota_takes(body, type, tree))
          continue;
        for (const auto& [what, amount] : amounts_of(type, tree))
          if (const auto at = used.find(what); at != used.end())
            at->second += amount;
      }
    json::object status{{"hard", amounts_object(bounds)}, {"used", amounts_object(used)}};
    const json::value* was = body.if_contains("status");
    if (was && same_json(*was, status))
      return;
    body["status"] = std::move(status);
    wish_changed(out, with_body(*quota, body), quota->meta.seq);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> quota_controller() { return std::make_shared<QuotaController>(); }

}  // namespace lockstep::kube
