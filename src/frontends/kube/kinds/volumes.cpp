// Volumes, claims and storage classes. Volumes and claims begin their lives with a phase; what a claim asked for is
// fixed, but for its size.
// Source: kubernetes.io/docs/concepts/storage/persistent-volumes; messages are those of k8s.io/kubernetes
// pkg/apis/core/validation and pkg/apis/storage/validation.
#include <algorithm>
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/families.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kNotSources[] = {
    "capacity",     "accessModes", "claimRef",     "persistentVolumeReclaimPolicy", "storageClassName",
    "mountOptions", "volumeMode",  "nodeAffinity", "volumeAttributesClassName"};

void check_modes(const Place& modes, const char* none) {
  if (modes.empty())
    modes.required(none);
  bool alone = false;
  for (const Place& one : modes.each()) alone = alone || one.is("ReadWriteOncePod");
  if (alone && modes.each().size() > 1)
    modes.forbidden("may not use ReadWriteOncePod with other access modes");
}

void check_class_name(const Place& spec) {
  if (const Place name = spec["storageClassName"]; !name.empty())
    name.dns_subdomain();
}

// What was asked for stays so: the volume comes once, and the size may grow.
void check_claim_change(const Place& spec, const Place& before) {
  json::value kept = spec.value();
  if (!kept.is_object())
    return;
  const auto take = [&](std::string_view key) {
    if (const Place was = before[key]; was.there())
      kept.get_object()[key] = was.value();
    else
      kept.get_object().erase(key);
  };
  const bool bound = !before["volumeName"].empty();
  if (!bound)
    take("volumeName");
  take("volumeAttributesClassName");
  take("resources");
  if (!same_json(kept, before.value()) ||
      (!bound && !same_json(spec["resources"].value(), before["resources"].value())))
    return spec.forbidden(
        "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims");
  const Place now = spec["resources"]["requests"], was = before["resources"]["requests"];
  const auto wanted = quantity_in(now.value(), "storage"), had = quantity_in(was.value(), "storage");
  if (wanted && had && *wanted < *had)
    now["storage"].forbidden("field can not be less than status.capacity");
}

class ClaimRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override { tree["status"] = {{"phase", "Pending"}}; }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (!old)
      return check_claim_spec(spec);
    if (const json::value& was = part(*old, "spec"); !same_json(spec.value(), was))
      check_claim_change(spec, Place(was, "spec", out));
  }
};

class VolumeRules final : public KindRules {
 public:
  void prepare_create(json::object& tree) const override { tree["status"] = {{"phase", "Pending"}}; }

  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const Place spec(part(tree, "spec"), "spec", out);
    if (old && same_json(spec.value(), part(*old, "spec")))
      return;
    check_modes(spec["accessModes"], "");
    const Place capacity = spec["capacity"], source = check_source(spec);
    if (capacity.empty())
      capacity.required();
    if (!capacity["storage"].there() || capacity.map().size() > 1)
      capacity.not_supported({"storage"});
    if (const auto size = quantity_in(capacity.value(), "storage"); size && size->sign() <= 0)
      capacity.entry("storage").invalid("must be greater than zero");
    check_class_name(spec);
    if (spec["hostPath"]["path"].is("/") && spec["persistentVolumeReclaimPolicy"].is("Recycle"))
      spec["persistentVolumeReclaimPolicy"].forbidden("may not be 'recycle' for a hostPath mount of '/'");
    if (spec["local"].there() && !spec["nodeAffinity"].there())
      spec["nodeAffinity"].required("Local volume requires node affinity");
    if (old && !same_json(source.value(), part(part(*old, "spec"), source.path().substr(source.path().find('.') + 1))))
      spec.out().push_back(
          field_forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"));
  }

 private:
  static Place check_source(const Place& spec) {
    std::optional<Place> first;
    if (spec.value().is_object())
      for (const auto& [key, value] : spec.value().get_object())
        if (std::ranges::find(kNotSources, std::string_view(key)) == std::end(kNotSources) && !value.is_null()) {
          if (first)
            spec[key].forbidden("may not specify more than 1 volume type");
          else
            first = spec[key];
        }
    if (!first)
      spec.required("must specify a volume type");
    return first.value_or(spec["none"]);
  }
};

class StorageClassRules final : public KindRules {
 public:
  void validate(const json::object& tree, const json::object* old, FieldErrors& out) const override {
    const json::value now(tree);
    const Place all(now, "", out);
    if (const Place maker = all["provisioner"]; !maker.empty())
      maker.qualified_name();
    if (!old)
      return;
    const json::value was(*old);
    const Place before(was, "", out);
    for (const char* fixed : {"parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"})
      if (!same_json(all[fixed].value(), before[fixed].value()))
        all[fixed].forbidden("updates to " + std::string(fixed) + " are forbidden.");
  }
};

}  // namespace

void check_claim_spec(const Place& spec) {
  check_modes(spec["accessModes"], "at least 1 access mode is required");
  check_selector(spec["selector"]);
  const Place requests = spec["resources"]["requests"], size = spec["resources"].entry("storage");
  if (!requests["storage"].there())
    size.required();
  else if (const auto amount = quantity_in(requests.value(), "storage"); amount && amount->sign() <= 0)
    size.out().push_back(field_invalid(size.path(), json::value(amount->text()), "must be greater than zero"));
  check_class_name(spec);
}

const KindRules& volume_rules() {
  static const VolumeRules rules;
  return rules;
}
const KindRules& claim_rules() {
  static const ClaimRules rules;
  return rules;
}
const KindRules& storage_class_rules() {
  static const StorageClassRules rules;
  return rules;
}

}  // namespace lockstep::kube
