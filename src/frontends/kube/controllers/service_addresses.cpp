// Cluster addresses go with their Services.
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kAddresses = "ipaddresses.networking.k8s.io";
constexpr std::string_view kManager = "ipaddress.kubernetes.io/managed-by";

class ServiceAddressController final : public Reconciler {
 public:
  std::string_view name() const override { return "service addresses"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kAddresses)
      out.push_back(key_of(changed));
    if (changed.type != kServices)
      return;
    const json::object body = body_of(changed);
    const json::value* spec = body.if_contains("spec");
    const json::value* address = spec ? member(*spec, "clusterIP") : nullptr;
    if (address && !text_of(*address).empty())
      out.push_back({std::string(kAddresses), "", std::string(text_of(*address))});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant, Wishes& out) const override {
    const auto address = view.find(kAddresses, "", std::get<2>(key));
    if (!address || is_deleting(*address) || !is_ours(*address))
      return;
    const json::object body = body_of(*address);
    const json::value* parent = body.contains("spec") ? member(body.at("spec"), "parentRef") : nullptr;
    const auto text = [&](std::string_view name) {
      const json::value* value = parent ? member(*parent, name) : nullptr;
      return value ? std::string(text_of(*value)) : std::string();
    };
    const auto service = view.find(kServices, text("namespace"), text("name"));
    if (service) {
      const json::object tree = body_of(*service);
      const json::value* held = tree.contains("spec") ? member(tree.at("spec"), "clusterIP") : nullptr;
      if (held && text_of(*held) == address->meta.name)
        return;
    }
    out.add(RemoveObject{address->type, "", address->meta.name, address->meta.seq},
            service ? Reading{.records = {{key_of(*service), service->meta.seq}}} : Reading{});
  }

 private:
  static bool is_ours(const Object& address) {
    if (!address.meta.extra)
      return false;
    for (const auto& [key, value] : address.meta.extra->labels)
      if (key == kManager)
        return true;
    return false;
  }
};

}  // namespace

std::shared_ptr<const Reconciler> service_address_controller() { return std::make_shared<ServiceAddressController>(); }

}  // namespace lockstep::kube
