// Whether a ServiceCIDR is one of which Services get addresses: the cluster's own alone is.
// Source: kubernetes.io/docs/reference/networking/virtual-ips, "IP address objects"; its condition "Ready".
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kRanges = "servicecidrs.networking.k8s.io";
constexpr const char* kOwnRange = "kubernetes";

class ServiceRanges final : public Reconciler {
 public:
  std::string_view name() const override { return "service ranges"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kRanges)
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto range = view.find(kRanges, "", std::get<2>(key));
    if (!range || is_deleting(*range))
      return;
    json::object body = body_of(*range);
    json::object status = part(body, "status").is_object() ? part(body, "status").get_object() : json::object();
    const json::array& told = list_in(part(body, "status"), "conditions");
    if (std::ranges::any_of(told, [](const json::value& one) { return text_in(one, "type") == "Ready"; }))
      return;
    const bool own = range->meta.name == kOwnRange;
    json::array conditions = told;
    conditions.push_back({{"type", "Ready"},
                          {"status", own ? "True" : "False"},
                          {"lastTransitionTime", time_text(now, view.wall_offset())},
                          {"reason", own ? "" : "NotServed"},
                          {"message", own ? "Kubernetes Service CIDR is ready"
                                          : "Services get their addresses from the range of \"kubernetes\" alone"}});
    status["conditions"] = std::move(conditions);
    wish_status(out, *range, std::move(body), std::move(status));
  }
};

}  // namespace

std::shared_ptr<const Reconciler> service_range_controller() { return std::make_shared<ServiceRanges>(); }

}  // namespace lockstep::kube
