// Source: k8s.io/kubernetes pkg/controller/disruption (getExpectedScale and its finders).
#include "frontends/kube/controllers/pod_scales.h"

#include <boost/json/array.hpp>
#include <optional>
#include <set>

#include "base/text.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/quoted.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kCustomKinds = "customresourcedefinitions.apiextensions.k8s.io";
constexpr std::string_view kSets = "replicasets.apps", kDeployments = "deployments.apps";

struct ScaledOwner {
  Uid uid;
  std::int64_t count = 0;
};

Ref<Object> find_owner(const ObjectView& view, std::string_view type, std::string_view ns, const OwnerRef& ref) {
  auto found = view.find(type, ns, ref.name);
  return found && found->meta.uid == ref.uid ? found : nullptr;
}

ScaledOwner owner_with(const Object& owner) {
  return {owner.meta.uid, whole_in(part(body_of(owner), "spec"), "replicas", 1)};
}

// Of a ReplicaSet that a Deployment has, the Deployment.
std::optional<ScaledOwner> built_in_owner(const ObjectView& view, std::string_view ns, const OwnerRef& ref) {
  for (const std::string_view type :
       {kSets, kDeployments, std::string_view("statefulsets.apps"), std::string_view("replicationcontrollers")})
    if (const auto owner = find_owner(view, type, ns, ref)) {
      const OwnerRef* above = type == kSets ? controller_ref(*owner) : nullptr;
      const auto deployment = above ? find_owner(view, kDeployments, ns, *above) : nullptr;
      return owner_with(deployment ? *deployment : *owner);
    }
  return std::nullopt;
}

// The reference to the controller as it was written, with its kind.
json::value written_reference(const Object& pod) {
  const json::object tree = whole_tree(pod);
  if (const json::array* owners = member_array(part(tree, "metadata"), "ownerReferences"))
    for (const json::value& owner : *owners)
      if (truth_in(owner, "controller"))
        return owner;
  return {};
}

// ".spec.replicas" of the tree.
std::int64_t number_at(const json::value& tree, std::string_view path) {
  const json::value* at = &tree;
  for (const std::string& name : split(std::string(path.substr(path.starts_with('.'))), '.')) at = &part(*at, name);
  return is_number(*at) ? static_cast<std::int64_t>(number_of(*at)) : 0;
}

// Its scale subresource is asked, where its definition has one.
Result<ScaledOwner> custom_owner(const ObjectView& view, const Object& pod, const OwnerRef& ref) {
  const json::value owner = written_reference(pod);
  const std::string said = text_in(owner, "apiVersion"), kind = text_in(owner, "kind");
  const auto slash = said.find('/');
  const std::string group = slash == said.npos ? "" : said.substr(0, slash),
                    version = slash == said.npos ? said : said.substr(slash + 1);
  const auto has_none = [](const std::string& type) {
    return Error{Errc::kUnsupported, type + " does not implement the scale subresource", {}};
  };
  if (const Resource* built_in = find_builtin_kind(group, version, kind))
    return has_none(group.empty() ? std::string(built_in->plural) : format("{}.{}", built_in->plural, group));
  for (const auto& [key, definition] : view.in(kCustomKinds, "")) {
    const json::object body = body_of(*definition);
    const json::value& spec = part(body, "spec");
    if (text_in(spec, "group") != group || text_in(part(spec, "names"), "kind") != kind)
      continue;
    std::string path;
    if (const json::array* versions = member_array(spec, "versions"))
      for (const json::value& one : *versions)
        if (text_in(one, "name") == version)
          path = text_in(part(part(one, "subresources"), "scale"), "specReplicasPath");
    const std::string type = format("{}.{}", text_in(part(spec, "names"), "plural"), group);
    if (path.empty())
      return has_none(type);
    if (const auto object = find_owner(view, type, pod.meta.ns.get(), ref))
      return ScaledOwner{object->meta.uid, number_at(whole_tree(*object), path)};
    return Error{Errc::kNotFound, format("found no controllers for pod {}", quoted(pod.meta.name)), {}};
  }
  return Error{Errc::kNotFound, format("no matches for kind {} in version {}", quoted(kind), quoted(said)), {}};
}

}  // namespace

Result<PodScales> scales_of(const ObjectView& view, const std::vector<Ref<Object>>& pods) {
  PodScales out;
  std::set<Uid> asked, counted;
  for (const Ref<Object>& pod : pods) {
    const OwnerRef* ref = controller_ref(*pod);
    if (!ref) {
      out.unmanaged = true;
      continue;
    }
    if (!asked.insert(ref->uid).second)
      continue;
    auto owner = built_in_owner(view, pod->meta.ns.get(), *ref);
    if (!owner)
      owner = TRY(custom_owner(view, *pod, *ref));
    if (counted.insert(owner->uid).second)
      out.sum += owner->count;
  }
  return out;
}

}  // namespace lockstep::kube
