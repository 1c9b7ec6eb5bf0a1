// What each namespace gets by itself: the ServiceAccount "default", which pods run as unless they name another, and the
// CA's certificate, by which they know the API server.
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kNamespaces = "namespaces", kAccounts = "serviceaccounts", kMaps = "configmaps";
constexpr const char* kDefaultAccount = "default";
constexpr const char* kRootCa = "kube-root-ca.crt";
constexpr const char* kSaid = "The certificate authority by which the API server is known.";

class NamespaceDefaults final : public Reconciler {
 public:
  explicit NamespaceDefaults(std::string ca_pem) : ca_pem_(std::move(ca_pem)) {}
  std::string_view name() const override { return "namespace defaults"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kNamespaces)
      out.push_back({std::string(kNamespaces), "", changed.meta.name});
    else if ((changed.type == kAccounts && changed.meta.name == kDefaultAccount) ||
             (changed.type == kMaps && changed.meta.name == kRootCa))
      out.push_back({std::string(kNamespaces), "", changed.meta.ns.get()});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const std::string& ns = std::get<2>(key);
    const auto around = view.find(kNamespaces, "", ns);
    if (!around || is_deleting(*around))
      return;
    if (!view.find(kAccounts, ns, kDefaultAccount))
      wish_new(out, view, now, kAccounts, {{"metadata", {{"name", kDefaultAccount}, {"namespace", ns}}}});
    const auto map = view.find(kMaps, ns, kRootCa);
    const json::object data{{"ca.crt", ca_pem_}};
    if (!map) {
      wish_new(out, view, now, kMaps,
               {{"metadata",
                 {{"name", kRootCa}, {"namespace", ns}, {"annotations", {{"kubernetes.io/description", kSaid}}}}},
                {"data", data}});
    } else if (json::object body = body_of(*map); !is_deleting(*map) && body["data"] != data) {
      body["data"] = data;
      wish_changed(out, with_body(*map, body), map->meta.seq);
    }
  }

 private:
  std::string ca_pem_;
};

}  // namespace

std::shared_ptr<const Reconciler> namespace_defaults(std::string ca_pem) {
  return std::make_shared<NamespaceDefaults>(std::move(ca_pem));
}

std::vector<std::shared_ptr<const Reconciler>> all_controllers(std::string ca_pem,
                                                               std::function<std::string()> api_address) {
  return {bootstrap_controller(),
          namespace_controller(),
          namespace_defaults(std::move(ca_pem)),
          quota_controller(),
          node_controller(),
          service_address_controller(),
          definition_controller(),
          endpoint_controller(),
          disruption_controller(),
          pod_controller(),
          replica_set_controller(),
          replication_controller(),
          deployment_controller(),
          job_controller(),
          daemon_set_controller(),
          stateful_set_controller(),
          cron_job_controller(),
          expiry_controller(),
          taint_eviction_controller(),
          not_programmed_controller(),
          api_endpoints_controller(std::move(api_address))};
}

}  // namespace lockstep::kube
