// What each namespace gets by itself: the ServiceAccount "default", which pods run as unless they name another, and the
// CA's certificate, by which they know the API server. In kube-system also how servers of aggregated APIs know whom we
// pass on. Source: kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer.
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kAccounts = "serviceaccounts", kMaps = "configmaps";
constexpr const char* kDefaultAccount = "default";
constexpr const char* kRootCa = "kube-root-ca.crt";
constexpr const char* kSystem = "kube-system";
constexpr const char* kExtensions = "extension-apiserver-authentication";
constexpr const char* kSaid = "The certificate authority by which the API server is known.";

class NamespaceDefaults final : public Reconciler {
 public:
  explicit NamespaceDefaults(std::string ca_pem) : ca_pem_(std::move(ca_pem)) {}
  std::string_view name() const override { return "namespace defaults"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kNamespaces)
      out.push_back({std::string(kNamespaces), "", changed.meta.name});
    else if ((changed.type == kAccounts && changed.meta.name == kDefaultAccount) ||
             (changed.type == kMaps && (changed.meta.name == kRootCa || changed.meta.name == kExtensions)))
      out.push_back({std::string(kNamespaces), "", changed.meta.ns.get()});
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const std::string& ns = std::get<2>(key);
    const auto around = view.find(kNamespaces, "", ns);
    if (!around || is_deleting(*around))
      return;
    if (!view.find(kAccounts, ns, kDefaultAccount))
      wish_new(out, view, now, kAccounts, {{"metadata", {{"name", kDefaultAccount}, {"namespace", ns}}}});
    keep_map(view, ns, {{"name", kRootCa}, {"namespace", ns}, {"annotations", {{"kubernetes.io/description", kSaid}}}},
             {{"ca.crt", ca_pem_}}, now, out);
    if (ns == kSystem)
      keep_map(view, ns, {{"name", kExtensions}, {"namespace", ns}},
               {{"client-ca-file", ca_pem_},
                {"requestheader-allowed-names", "[\"front-proxy-client\"]"},
                {"requestheader-client-ca-file", ca_pem_},
                {"requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]"},
                {"requestheader-group-headers", "[\"X-Remote-Group\"]"},
                {"requestheader-uid-headers", "[\"X-Remote-Uid\"]"},
                {"requestheader-username-headers", "[\"X-Remote-User\"]"}},
               now, out);
  }

 private:
  static void keep_map(const ObjectView& view, const std::string& ns, json::object metadata, const json::object& data,
                       Instant now, Wishes& out) {
    const auto map = view.find(kMaps, ns, text_in(metadata, "name"));
    if (!map) {
      wish_new(out, view, now, kMaps, {{"metadata", std::move(metadata)}, {"data", data}});
    } else if (json::object body = body_of(*map); !is_deleting(*map) && body["data"] != data) {
      body["data"] = data;
      wish_changed(out, with_body(*map, body), map->meta.seq);
    }
  }

  std::string ca_pem_;
};

}  // namespace

std::shared_ptr<const Reconciler> namespace_defaults(std::string ca_pem) {
  return std::make_shared<NamespaceDefaults>(std::move(ca_pem));
}

std::vector<std::shared_ptr<const Reconciler>> all_controllers(std::string ca_pem, UseSource uses,
                                                               std::function<std::string()> api_address,
                                                               RequestSigner signer) {
  return {bootstrap_controller(),
          namespace_controller(),
          namespace_defaults(std::move(ca_pem)),
          quota_controller(),
          node_controller(),
          service_address_controller(),
          service_range_controller(),
          definition_controller(),
          endpoint_controller(),
          disruption_controller(),
          pod_controller(),
          claim_controller(),
          replica_set_controller(),
          replication_controller(),
          deployment_controller(),
          job_controller(),
          daemon_set_controller(),
          stateful_set_controller(),
          cron_job_controller(),
          expiry_controller(),
          foreign_owner_controller(),
          taint_eviction_controller(),
          pressure_eviction_controller(uses),
          autoscaler_controller(std::move(uses)),
          not_programmed_controller(),
          policy_type_controller(),
          certificate_controller(std::move(signer)),
          api_endpoints_controller(std::move(api_address))};
}

}  // namespace lockstep::kube
