// The end of namespaces: first the pods inside are deleted, so that none outlives what guards or feeds it, then
// everything else, then the namespace itself goes.
// Source: kubernetes.io/docs/tasks/administer-cluster/namespaces, "Deleting a namespace"; KEP 5080.
#include <boost/json/array.hpp>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/store/stored_object.h"

namespace lockstep::kube {

namespace {

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

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto ns = view.find(kNamespaces, "", std::get<2>(key));
    if (!ns || !is_deleting(*ns) || !has_finalizer(*ns, kNamespaceFinalizer))
      return;
    const auto& types = view.types_in(ns->meta.name);
    if (types.empty())
      return finish(*ns, out);
    const bool pods_left = types.contains(std::string(kPods));
    for (const auto& [type, count] : types) {
      if (pods_left && type != kPods)
        continue;
      for (const auto& [key, object] : view.in(type, ns->meta.name)) {
        if (out.wishes.size() == kDeletionsAtOnce)
          return;
        if (!is_deleting(*object))
          out.add(RemoveObject{type, ns->meta.name, object->meta.name, object->meta.seq});
      }
    }
    if (out.wishes.empty())
      tell(view, *ns, now, out);
  }

 private:
  // What it waits for.
  static void tell(const ObjectView& view, const Object& ns, Instant now, Wishes& out) {
    std::set<std::string> types, finalizers;
    for (const auto& [type, count] : view.types_in(ns.meta.name)) {
      types.insert(type);
      for (const auto& [key, object] : view.in(type, ns.meta.name))
        if (object->meta.extra)
          finalizers.insert(object->meta.extra->finalizers.begin(), object->meta.extra->finalizers.end());
    }
    const auto listed = [](const std::set<std::string>& all) { return join({all.begin(), all.end()}, ", "); };
    json::array conditions;
    const auto add = [&](const char* type, bool is, const char* reason, std::string message) {
      conditions.push_back(
          {{"type", type}, {"status", is ? "True" : "False"}, {"reason", reason}, {"message", message}});
    };
    add("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered", "All resources successfully discovered");
    add("NamespaceDeletionContentFailure", false, "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization");
    add("NamespaceContentRemaining", true, "SomeResourcesRemain", "Some resources are remaining: " + listed(types));
    add("NamespaceFinalizersRemaining", !finalizers.empty(),
        finalizers.empty() ? "ContentHasNoFinalizers" : "SomeFinalizersRemain",
        finalizers.empty() ? "All content-preserving finalizers finished"
                           : "Some content in the namespace has finalizers remaining: " + listed(finalizers));
    json::object body = body_of(ns);
    json::value& status = body["status"];
    json::object& shown = status.is_object() ? status.get_object() : status.emplace_object();
    if (const json::value* before = shown.if_contains("conditions"); before && same_but_for_times(*before, conditions))
      return;
    for (json::value& one : conditions) one.as_object()["lastTransitionTime"] = time_text(now, view.wall_offset());
    shown["conditions"] = std::move(conditions);
    wish_changed(out, with_body(ns, body), ns.meta.seq);
  }

  static bool same_but_for_times(json::value before, const json::array& now) {
    if (before.is_array())
      for (json::value& one : before.get_array())
        if (one.is_object())
          one.get_object().erase("lastTransitionTime");
    return before == json::value(now);
  }

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
