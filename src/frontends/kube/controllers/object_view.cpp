#include "frontends/kube/controllers/pod_reading.h"
#include "frontends/kube/controllers/reconciler.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

const std::set<ObjectKey> kNone;
const std::map<std::string, std::size_t> kNoTypes;
constexpr std::string_view kPodsType = "pods";
constexpr std::int64_t kSecondsOfLate = 300;

bool is_adopted(std::string_view type) {
  return type == kPodsType || type == "replicasets.apps" || type == "controllerrevisions.apps" || type == "jobs.batch";
}

bool has_controller(const Object& object) {
  return object.meta.extra && std::ranges::any_of(object.meta.extra->owners, &OwnerRef::controller);
}

// What a job that is no pod holds. Null: nothing, or it is one.
const Allocation* held_by_other(const Job& job) {
  const bool is_pods = job.meta.extra && !job.meta.extra->owners.empty();
  return is_pods || !holds_allocation(job.state) ? nullptr : job.allocation.get();
}

}  // namespace

ObjectKey key_of(const Object& object) { return {object.type, object.meta.ns, object.meta.name}; }

void ObjectView::apply(const Change& change) {
  const auto* record = std::get_if<Ref<Object>>(&change.record);
  if (record) {
    const ObjectKey key = key_of(**record);
    if (const auto known = tables_.objects.find(key); known != tables_.objects.end())
      index(*known->second, false);
    if ((*record)->type == kPodsType) {
      pods_.erase(key);
      if (!change.removed && !tables_.objects.contains(key))
        note_made(**record);
    }
    if (!change.removed)
      index(**record, true);
  }
  touched_.clear();
  if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
    const Job* before = tables_.job((*job)->id);
    const Allocation *had = before ? held_by_other(*before) : nullptr,
                     *has = change.removed ? nullptr : held_by_other(**job);
    if (had != has) {
      if (had)
        index_job(*before, had, false);
      if (has)
        index_job(**job, has, true);
    }
  }
  tables_.apply(change);
}

void ObjectView::index_job(const Job& job, const Allocation* held, bool there) {
  for (const Grant& grant : held->grants) {
    touched_.push_back(grant.node);
    if (there)
      other_jobs_[grant.node].insert(job.id);
    else if (const auto at = other_jobs_.find(grant.node); at != other_jobs_.end())
      if (at->second.erase(job.id); at->second.empty())
        other_jobs_.erase(at);
  }
}

const std::set<JobId>& ObjectView::other_jobs_on(NodeId node) const {
  static const std::set<JobId> kNoJobs;
  const auto at = other_jobs_.find(node);
  return at == other_jobs_.end() ? kNoJobs : at->second;
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

void ObjectView::note_made(const Object& pod) {
  if (!pod.meta.extra)
    return;
  const auto controller = std::ranges::find_if(pod.meta.extra->owners, &OwnerRef::controller);
  if (controller == pod.meta.extra->owners.end())
    return;
  const std::int64_t second = pod.meta.created.us / 1'000'000;
  ++made_[controller->uid][second];
  made_when_.insert({second, controller->uid});
  while (made_when_.begin()->first < made_when_.rbegin()->first - kSecondsOfLate) {
    const auto [old, uid] = *made_when_.begin();
    const auto of = made_.find(uid);
    of->second.erase(old);
    if (of->second.empty())
      made_.erase(of);
    made_when_.erase(made_when_.begin());
  }
}

ObjectView::Made ObjectView::made_of_late(Uid controller, Instant now) const {
  Made out;
  const auto of = made_.find(controller);
  if (of == made_.end())
    return out;
  const std::int64_t from = now.us / 1'000'000 - kSecondsOfLate;
  for (auto at = of->second.lower_bound(from); at != of->second.end(); ++at) {
    out.count += at->second;
    out.last = Instant{at->first * 1'000'000};
  }
  return out;
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
