#include "frontends/kube/kinds/claims.h"

#include <algorithm>
#include <boost/json/parse.hpp>

#include "base/text.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/selectors.h"
#include "model/records.h"

namespace lockstep::kube {

namespace {

constexpr const char* kAttributes = "volumeAttributesClassName";
constexpr const char* kOldClass = "volume.beta.kubernetes.io/storage-class";

bool holds_modes(const std::vector<std::string>& given, const std::vector<std::string>& asked) {
  return std::ranges::all_of(asked,
                             [&](const std::string& mode) { return std::ranges::find(given, mode) != given.end(); });
}

std::string mode_of(const json::value& spec) {
  const std::string mode = text_in(spec, "volumeMode");
  return mode.empty() ? "Filesystem" : mode;
}

// What the claim's volume is to be filled from; null: it is to be empty.
const json::value* source_of(const json::value& claim_spec) {
  for (const char* key : {"dataSourceRef", "dataSource"})
    if (const json::value& source = part(claim_spec, key); source.is_object())
      return &source;
  return nullptr;
}

}  // namespace

std::string storage_class_of(const json::object& tree) {
  const std::string old = text_in(part(part(tree, "metadata"), "annotations"), kOldClass);
  return old.empty() ? text_in(part(tree, "spec"), "storageClassName") : old;
}

bool volume_fits(const json::object& volume, const json::object& claim) {
  const json::value &has = part(volume, "spec"), &asks = part(claim, "spec");
  const auto size = quantity_in(part(has, "capacity"), "storage");
  const auto asked = quantity_in(part(part(asks, "resources"), "requests"), "storage");
  // What it is to be filled from is in no volume that is there already.
  if (storage_class_of(volume) != storage_class_of(claim) || mode_of(has) != mode_of(asks) || source_of(asks) ||
      text_in(has, kAttributes) != text_in(asks, kAttributes) ||
      !holds_modes(texts_in(has, "accessModes"), texts_in(asks, "accessModes")) || (asked && (!size || *size < *asked)))
    return false;
  const json::value& selector = part(asks, "selector");
  if (!selector.is_object())
    return true;
  const auto wanted = read_label_selector(selector);
  const json::value& labels = part(part(volume, "metadata"), "labels");
  return wanted.ok() && wanted->matches(labels.is_object() ? labels.get_object() : json::object());
}

bool is_kept_for(const json::object& volume, std::string_view ns, std::string_view claim, std::string_view uid) {
  const json::value& reference = part(part(volume, "spec"), "claimRef");
  const std::string known = text_in(reference, "uid");
  return reference.is_object() && text_in(reference, "namespace") == ns && text_in(reference, "name") == claim &&
         (known.empty() || known == uid);
}

std::string claim_of_volume(const json::object& pod, const json::value& volume) {
  if (part(volume, "ephemeral").is_object())
    return format("{}-{}", text_in(part(pod, "metadata"), "name"), text_in(volume, "name"));
  return text_in(part(volume, "persistentVolumeClaim"), "claimName");
}

bool uses_claim(const json::object& pod, std::string_view claim) {
  return std::ranges::any_of(list_in(spec_of(pod), "volumes"),
                             [&](const json::value& volume) { return claim_of_volume(pod, volume) == claim; });
}

Result<std::string> path_of_volume(const json::object& volume, std::string_view name) {
  const json::value& spec = part(volume, "spec");
  if (mode_of(spec) == "Block")
    return Error{
        Errc::kUnsupported, format("persistentvolume \"{}\" is a device: only folders are mounted here", name), {}};
  if (const json::value& nfs = part(spec, "nfs"); nfs.is_object())
    return format("{}:{}", text_in(nfs, "server"), text_in(nfs, "path"));
  for (const char* kind : {"hostPath", "local"})
    if (const std::string path = text_in(part(spec, kind), "path"); !path.empty())
      return path;
  return Error{
      Errc::kUnavailable,
      format("persistentvolume \"{}\" is of a kind that nodes here do not mount: hostPath, local and nfs are", name),
      {}};
}

std::string why_not_local(const Tables& tables, const json::object& claim) {
  const json::value& spec = part(claim, "spec");
  const std::string storage = storage_class_of(claim), attributes = text_in(spec, kAttributes);
  if (mode_of(spec) == "Block")
    return format("volumes of class {} are folders: none has volumeMode Block", storage);
  for (const std::string& mode : texts_in(spec, "accessModes"))
    if (mode != "ReadWriteOnce" && mode != "ReadWriteOncePod")
      return format(
          "volumes of class {} are folders of one node: none has access mode {}; what several nodes share is a volume "
          "of NFS",
          storage, mode);
  if (const json::value* source = source_of(spec))
    return format("volumes of class {} are made empty: none is filled from {} {}", storage, text_in(*source, "kind"),
                  text_in(*source, "name"));
  if (attributes.empty())
    return {};
  const auto at = tables.objects.find({std::string(kAttributeClasses), "", attributes});
  if (at == tables.objects.end())
    return format("volumeattributesclass.storage.k8s.io \"{}\" not found", attributes);
  const std::string driver = text_in(json::parse(at->second->body.get()), "driverName");
  return driver == kLocalProvisioner
             ? ""
             : format("VolumeAttributesClass {} is of driver {}, not of {}", attributes, driver, kLocalProvisioner);
}

std::string provisioned_name(std::string_view claim_uid) { return format("pvc-{}", claim_uid); }

}  // namespace lockstep::kube
