// Who says that it belongs to something that was never of this cluster has no owner, and goes: its maker finished after
// the owner was gone, or brought it from elsewhere. Owners that were here are the collector's business.
// Source: kubernetes.io/docs/concepts/architecture/garbage-collection, "Owners and dependents".
#include <algorithm>

#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/machinery/builtin.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

// Of a kind that is served here, so that it is known not to be there.
bool is_absent(const json::value& owner) {
  const std::string version = text_in(owner, "apiVersion");
  const auto slash = version.find('/');
  const std::string group = slash == version.npos ? "" : version.substr(0, slash);
  return !uid_of(text_in(owner, "uid")) &&
         find_builtin_kind(group, slash == version.npos ? version : version.substr(slash + 1), text_in(owner, "kind"));
}

class ForeignOwners final : public Reconciler {
 public:
  std::string_view name() const override { return "foreign owners"; }

  void woken_by(const ObjectView&, const Object& changed, std::vector<ObjectKey>& out) const override {
    const bool has_owner = changed.meta.extra && !changed.meta.extra->owners.empty();
    if (!has_owner && changed.body.find(R"("ownerReferences":[)") != std::string::npos)
      out.push_back(key_of(changed));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant, Wishes& out) const override {
    const auto object = view.find(std::get<0>(key), std::get<1>(key), std::get<2>(key));
    if (!object || is_deleting(*object) || (object->meta.extra && !object->meta.extra->owners.empty()))
      return;
    const json::object body = body_of(*object);
    const json::array* owners = member_array(part(body, "metadata"), "ownerReferences");
    if (owners && !owners->empty() && std::ranges::all_of(*owners, is_absent))
      out.add(RemoveObject{object->type, object->meta.ns, object->meta.name, object->meta.seq});
  }
};

}  // namespace

std::shared_ptr<const Reconciler> foreign_owner_controller() { return std::make_shared<ForeignOwners>(); }

}  // namespace lockstep::kube
