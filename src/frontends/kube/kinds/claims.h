// Claims of volumes: what a claim asks, which volume would do, and where it lies on its node. Functions of the objects
// alone. Source: kubernetes.io/docs/concepts/storage/persistent-volumes.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tables.h"

namespace lockstep::kube {

namespace json = boost::json;

inline constexpr std::string_view kClaims = "persistentvolumeclaims", kVolumes = "persistentvolumes";
inline constexpr std::string_view kStorageClasses = "storageclasses.storage.k8s.io",
                                  kAttributeClasses = "volumeattributesclasses.storage.k8s.io";
// Folders of the node on which a claim's first pod runs.
inline constexpr const char* kLocalProvisioner = "lockstep.io/local";

// Of a claim or a volume: its class, by its field or the older annotation. "" = of no class.
std::string storage_class_of(const json::object& tree);
// Whether the volume, which nobody has, is as the claim asks. Both are whole trees.
bool volume_fits(const json::object& volume, const json::object& claim);
// Whether the volume is kept for this claim by name. uid: of the claim.
bool is_kept_for(const json::object& volume, std::string_view ns, std::string_view claim, std::string_view uid);

// The claim that a pod's volume means: a name, or for `ephemeral` one that is made with the pod. "" = it means none.
std::string claim_of_volume(const json::object& pod, const json::value& volume);
bool uses_claim(const json::object& pod, std::string_view claim);

// Where a volume lies for its node: a path; relative ones begin at what its agent keeps; "SERVER:/EXPORT" of NFS.
Result<std::string> path_of_volume(const json::object& volume, std::string_view name);
// Why the local provisioner makes no volume for the claim, whatever its pod's node: it makes empty folders of one node.
// "": it makes one.
std::string why_not_local(const Tables& tables, const json::object& claim);
// The name, and so the path, of the volume that the local provisioner makes for a claim.
std::string provisioned_name(std::string_view claim_uid);

}  // namespace lockstep::kube
