// Where the Service "kubernetes" leads: the API server itself, in Endpoints and an EndpointSlice of that name.
#include <boost/json/array.hpp>

#include "base/ip_range.h"
#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr const char *kSpace = "default", *kName = "kubernetes", *kEndpointsType = "endpoints",
                     *kSliceType = "endpointslices.discovery.k8s.io";

class ApiEndpoints final : public Reconciler {
 public:
  explicit ApiEndpoints(std::function<std::string()> address) : address_(std::move(address)) {}
  std::string_view name() const override { return "api endpoints"; }

  std::vector<ObjectKey> first_keys() const override {
    return {{kEndpointsType, kSpace, kName}, {kSliceType, kSpace, kName}};
  }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    const bool is_ours = changed.meta.ns == kSpace && changed.meta.name == kName;
    if (is_ours && (changed.type == kEndpointsType || changed.type == kSliceType))
      out.push_back(key_of(changed));
    if (changed.type == "namespaces" && changed.meta.name == kSpace)
      for (ObjectKey& key : first_keys()) out.push_back(std::move(key));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const std::string address = address_ ? address_() : "";
    const auto colon = address.rfind(':');
    const auto port = colon == address.npos ? std::nullopt : parse_uint(address.substr(colon + 1));
    if (!port || !parse_ip(address.substr(0, colon)) || !view.find("namespaces", "", kSpace))
      return;
    const std::string ip = address.substr(0, colon);
    const json::array ports{json::object{{"name", "https"}, {"port", *port}, {"protocol", "TCP"}}};
    const bool is_slice = std::get<0>(key) == kSliceType;
    const json::object parts =
        is_slice
            ? json::object{{"addressType", "IPv4"},
                           {"endpoints", json::array{json::object{{"addresses", json::array{json::string_view(ip)}},
                                                                  {"conditions", {{"ready", true}}}}}},
                           {"ports", ports}}
            : json::object{{"subsets", json::array{json::object{{"addresses", json::array{json::object{{"ip", ip}}}},
                                                                {"ports", ports}}}}};
    const auto known = view.find(std::get<0>(key), kSpace, kName);
    if (!known) {
      json::object labels;
      if (is_slice)
        labels["kubernetes.io/service-name"] = kName;
      else
        labels["endpointslice.kubernetes.io/skip-mirror"] = "true";
      json::object tree = parts;
      tree["metadata"] = {{"name", kName}, {"namespace", kSpace}, {"labels", std::move(labels)}};
      return wish_new(out, view, now, std::get<0>(key), std::move(tree));
    }
    if (is_deleting(*known))
      return;
    json::object body = body_of(*known), wanted = parts;
    wanted["metadata"] = body["metadata"];
    if (!same_json(body, wanted))
      wish_changed(out, with_body(*known, wanted), known->meta.seq);
  }

 private:
  std::function<std::string()> address_;
};

}  // namespace

std::shared_ptr<const Reconciler> api_endpoints_controller(std::function<std::string()> address) {
  return std::make_shared<ApiEndpoints>(std::move(address));
}

}  // namespace lockstep::kube
