#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/reconciler.h"

namespace lockstep::kube {

namespace {

const std::set<ObjectKey> kNone;
const std::map<std::string, std::size_t> kNoTypes;
constexpr std::string_view kPodsType = "pods";

bool is_adopted(std::string_view type) {
  return type == kPodsType || type == "replicasets.apps" || type == "controllerrevisions.apps" || type == "jobs.batch";
}

bool has_controller(const Object& object) {
  return object.meta.extra && std::ranges::any_of(object.meta.extra->owners, &OwnerRef::controller);
}

}  // namespace

ObjectKey key_of(const Object& object) { return {object.type, object.meta.ns, object.meta.name}; }

void ObjectView::apply(const Change& change) {
  const auto* record = std::get_if<Ref<Object>>(&change.record);
  if (record) {
    const ObjectKey key = key_of(**record);
    if (const auto known = tables_.objects.find(key); known != tables_.objects.end())
      index(*known->second, false);
    if ((*record)->type == kPodsType)
      pods_.erase(key);
    if (!change.removed)
      index(**record, true);
  }
  tables_.apply(change);
}

void ObjectView::index(const Object& object, bool there) {
  const auto put = [&](auto& sets, const auto& at) {
    if (there) {
      sets[at].insert(key_of(object));
    } else if (const auto it = sets.find(at); it != sets.end()) {
      it->second.erase(key_of(object));
      if (it->second.empty())
        sets.erase(it);
    }
  };
  auto& types = types_in_[object.meta.ns.get()];
  if (std::size_t& count = types[object.type]; (count += there ? 1 : -1) == 0)
    types.erase(object.type);
  if (types.empty())
    types_in_.erase(object.meta.ns.get());
  if (is_adopted(object.type) && !has_controller(object))
    put(uncontrolled_, object.meta.ns.get());
  if (object.meta.extra)
    for (const OwnerRef& owner : object.meta.extra->owners) put(dependents_, owner.uid);
}

Ref<Object> ObjectView::find(std::string_view type, std::string_view ns, std::string_view name) const {
  ++looked_;
  const auto at = tables_.objects.find({std::string(type), std::string(ns), std::string(name)});
  return at == tables_.objects.end() ? nullptr : at->second;
}

const std::map<std::string, std::size_t>& ObjectView::types_in(const std::string& ns) const {
  const auto at = types_in_.find(ns);
  return at == types_in_.end() ? kNoTypes : at->second;
}

const std::set<ObjectKey>& ObjectView::dependents(Uid owner) const {
  const auto at = dependents_.find(owner);
  return at == dependents_.end() ? kNone : at->second;
}

const std::set<ObjectKey>& ObjectView::uncontrolled(const std::string& ns) const {
  const auto at = uncontrolled_.find(ns);
  return at == uncontrolled_.end() ? kNone : at->second;
}

std::shared_ptr<const PodReading> ObjectView::pod(std::string_view ns, std::string_view name) const {
  const Ref<Object> object = find(kPodsType, ns, name);
  if (!object)
    return nullptr;
  std::shared_ptr<const PodReading>& known = pods_[key_of(*object)];
  if (!known)
    known = std::make_shared<const PodReading>(read_pod(object, tables_));
  return known;
}

}  // namespace lockstep::kube
