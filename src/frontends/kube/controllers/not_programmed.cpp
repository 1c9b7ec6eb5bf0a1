// What is kept here and does nothing says so, in an event: network policies, ingresses, balancers of Services.
#include "base/ip_range.h"
#include "base/text.h"
#include "frontends/kube/admission/external_ranges.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr const char* kNotProgrammed = "NotProgrammed";
constexpr Duration kNews = minutes(10);  // what is older was told when it came

struct Unprogrammed {
  WorkloadKind kind;
  const char* words;
};
const Unprogrammed kUnprogrammed[] = {
    {{"networkpolicies.networking.k8s.io", "networking.k8s.io/v1", "NetworkPolicy", "lockstep-services"},
     "nodes here enforce no network policies: every pod reaches every other"},
    {{"ingresses.networking.k8s.io", "networking.k8s.io/v1", "Ingress", "lockstep-services"},
     "no ingress controller comes with Lockstep: install one, and it fills in the status"},
    {{"services", "v1", "Service", "lockstep-services"},
     "no load balancer comes with Lockstep: the Service is reached at its node ports, on every node"}};

const Unprogrammed* what_is(const Object& object) {
  for (const Unprogrammed& one : kUnprogrammed)
    if (object.type == one.kind.type) {
      if (object.type != "services")
        return &one;
      const json::object body = body_of(object);
      return text_in(part(body, "spec"), "type") == "LoadBalancer" &&
                     text_in(part(body, "spec"), "loadBalancerClass").empty()
                 ? &one
                 : nullptr;
    }
  return nullptr;
}

class NotProgrammed final : public Reconciler {
 public:
  std::string_view name() const override { return "not programmed"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (what_is(changed) || (changed.type == "services" && !external_addresses(body_of(changed)).empty()))
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto& [type, ns, name] = key;
    const auto object = view.find(type, ns, name);
    if (object && type == "services")
      tell_unlisted(view, *object, now, out);
    const Unprogrammed* const what = object ? what_is(*object) : nullptr;
    if (!what || is_deleting(*object) || now - object->meta.created > kNews || !takes_new_objects(view, ns))
      return;
    tell(view, *object, what->kind, kNotProgrammed, what->words, now, out);
  }

 private:
  static void tell(const ObjectView& view, const Object& object, const WorkloadKind& kind, const char* reason,
                   const std::string& words, Instant now, Wishes& out) {
    Object event = event_about(view, now, object, kind, kWarning, reason, words);
    if (view.find(event.type, event.meta.ns, event.meta.name))
      return;
    Reading read{.records = {{key_of(event), 0}}};
    out.add(PutObject{std::move(event), 0}, std::move(read));
  }

  static void tell_unlisted(const ObjectView& view, const Object& service, Instant now, Wishes& out) {
    const std::vector<std::string> all = external_addresses(body_of(service));
    if (all.empty() || is_deleting(service) || !takes_new_objects(view, service.meta.ns))
      return;
    const auto map = view.find("configmaps", kExternalSpace, kExternalName);
    const ExternalRanges listed = ExternalRanges::of(map.get());
    std::vector<std::string> unlisted = all;
    std::erase_if(unlisted, [&](const std::string& one) { return listed.contains(parse_ip(one).value_or(0)); });
    if (!unlisted.empty())
      tell(view, service, kUnprogrammed[2].kind, "ExternalAddressNotAllowed",
           format("nodes do not lead {} to this Service: no range of {}/{} (key ranges) holds it", join(unlisted, ", "),
                  kExternalSpace, kExternalName),
           now, out);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> not_programmed_controller() { return std::make_shared<NotProgrammed>(); }

}  // namespace lockstep::kube
