// The end of namespaces: first everything inside is deleted, then the namespace itself goes.
// Source: kubernetes.io/docs/tasks/administer-cluster/namespaces, "Deleting a namespace".
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kNamespaces = "namespaces";
constexpr std::size_t kDeletionsAtOnce = 200;

class NamespaceController final : public Reconciler {
 public:
  std::string_view name() const override { return "namespaces"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kNamespaces)
      out.push_back({changed.type, "", changed.meta.name});
    else if (const std::string& ns = changed.meta.ns; !ns.empty())
      if (const auto around = view.find(kNamespaces, "", ns); around && is_deleting(*around))
        out.push_back(key_of(*around));
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant, Wishes& out) const override {
    const auto ns = view.find(kNamespaces, "", std::get<2>(key));
    if (!ns || !is_deleting(*ns) || !has_finalizer(*ns, kNamespaceFinalizer))
      return;
    const auto& inside = view.inside(ns->meta.name);
    if (inside.empty())
      return finish(*ns, out);
    for (const ObjectKey& one : inside) {
      if (out.wishes.size() == kDeletionsAtOnce)
        return;
      const auto& [type, where, name] = one;
      if (const auto object = view.find(type, where, name); !is_deleting(*object))
        out.add(RemoveObject{type, where, name, object->meta.seq});
    }
  }

 private:
  // Nothing is put inside meanwhile: who makes an object rests on a version of the namespace that was not being
  // deleted.
  static void finish(const Object& ns, Wishes& out) {
    json::object body = body_of(ns);
    body["spec"].emplace_object();
    wish_changed(out, without_finalizer(with_body(ns, body), kNamespaceFinalizer), ns.meta.seq);
  }
};

}  // namespace

std::shared_ptr<const Reconciler> namespace_controller() { return std::make_shared<NamespaceController>(); }

}  // namespace lockstep::kube
