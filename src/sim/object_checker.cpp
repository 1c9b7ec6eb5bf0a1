#include "sim/object_checker.h"

#include <algorithm>

#include "base/text.h"
#include "model/job.h"

namespace lockstep::sim {

namespace {

const std::vector<OwnerRef>& owners_of(const Meta& meta) {
  static const std::vector<OwnerRef> none;
  return meta.extra ? meta.extra->owners : none;
}

bool is_deleting(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

ObjectKey key_of_object(const Object& object) { return {object.type, object.meta.ns, object.meta.name}; }

}  // namespace

void ObjectChecker::saw(std::span<const Change> changes) {
  const Seq before = seen_;
  for (const Change& change : changes) {
    if (const auto* job = std::get_if<Ref<Job>>(&change.record)) {
      if (change.removed)
        jobs_.erase((*job)->id);
      else if (!owners_of((*job)->meta).empty() || jobs_.contains((*job)->id))  // it may have lost them
        jobs_[(*job)->id] = *job;
    } else if (const auto* ref = std::get_if<Ref<Object>>(&change.record)) {
      const ObjectKey key = key_of_object(**ref);
      const auto known = objects_.find(key);
      const Ref<Object> was = known == objects_.end() ? nullptr : known->second;
      changed(was.get(), change.removed ? nullptr : ref->get());
      if (change.removed)
        objects_.erase(key);
      else
        objects_[key] = *ref;
      if (!was && !change.removed && (*ref)->type == kReplicaType)
        check_count(**ref);
    }
    seen_ = change.seq;
  }
  for (const Change& change : changes)
    if (const auto* job = std::get_if<Ref<Job>>(&change.record))
      check_advanced(**job, before);
}

void ObjectChecker::changed(const Object* before, const Object* after) {
  const ObjectKey key = key_of_object(before ? *before : *after);
  if (before && after && after->meta.seq <= before->meta.seq)
    verdict_.fail(format("{} went back from {} to {}", after->meta.name, before->meta.seq, after->meta.seq));
  if (before) {
    for (const OwnerRef& owner : owners_of(before->meta)) owned_[owner.uid].erase(key);
    for (const Shown& shown : before->shows) shown_by_[shown.job].erase(key);
  }
  if (!after) {
    went(*before);
    by_uid_.erase(before->meta.uid);
    owned_.erase(before->meta.uid);
    return;
  }
  by_uid_[after->meta.uid] = key;
  if (after->meta.extra &&
      std::count(after->meta.extra->finalizers.begin(), after->meta.extra->finalizers.end(), kForeground) > 0)
    foreground_.insert(after->meta.uid);
  for (const OwnerRef& owner : owners_of(after->meta)) owned_[owner.uid].insert(key);
  for (const Shown& shown : after->shows) shown_by_[shown.job].insert(key);
}

void ObjectChecker::went(const Object& object) {
  if (object.meta.extra && !object.meta.extra->finalizers.empty())
    verdict_.fail(format("{} went with finalizers", object.meta.name));
  for (const Shown& shown : object.shows) {
    const auto job = jobs_.find(shown.job);
    if (job == jobs_.end() || is_final(job->second->state))
      continue;
    for (const OwnerRef& owner : owners_of(job->second->meta))
      if (owner.controller && owner.uid == object.meta.uid)
        verdict_.fail(format("{} went before job {} had ended", object.meta.name, shown.job.value));
  }
  if (const auto owned = owned_.find(object.meta.uid); foreground_.erase(object.meta.uid) && owned != owned_.end())
    for (const ObjectKey& key : owned->second)
      for (const OwnerRef& owner : owners_of(objects_.at(key)->meta))
        if (owner.uid == object.meta.uid && owner.blocks)
          verdict_.fail(format("{} went before {}, which blocks it", object.meta.name, std::get<2>(key)));
}

std::size_t ObjectChecker::replicas_of(Uid owner) const {
  const auto owned = owned_.find(owner);
  if (owned == owned_.end())
    return 0;
  return static_cast<std::size_t>(std::count_if(owned->second.begin(), owned->second.end(), [&](const ObjectKey& key) {
    return std::get<0>(key) == kReplicaType && !is_deleting(*objects_.at(key));
  }));
}

void ObjectChecker::check_count(const Object& replica) {
  ++made_;
  for (const OwnerRef& owner : owners_of(replica.meta)) {
    const auto at = by_uid_.find(owner.uid);
    if (at == by_uid_.end()) {
      verdict_.fail(format("{} was made for {}, which is gone", replica.meta.name, owner.name));
      continue;
    }
    const std::uint64_t wanted = parse_uint(objects_.at(at->second)->body).value_or(0);
    if (const std::size_t count = replicas_of(owner.uid); count > wanted)
      verdict_.fail(format("{} asks for {} replicas and got {}", owner.name, wanted, count));
  }
}

void ObjectChecker::check_advanced(const Job& job, Seq before) {
  const auto shown = shown_by_.find(job.id);
  if (shown == shown_by_.end())
    return;
  for (const ObjectKey& key : shown->second) {
    const Object& object = *objects_.at(key);
    if (object.meta.seq <= before)
      verdict_.fail(format("job {} has changed, and {}, which shows it, has not", job.id.value, object.meta.name));
    const auto now = jobs_.find(job.id);
    if (now == jobs_.end() || !is_final(now->second->state))
      continue;
    if (std::none_of(object.ended.begin(), object.ended.end(), [&](const EndedWork& end) {
          return end.what.job == job.id && end.state == now->second->state && end.exit == now->second->exit;
        }))
      verdict_.fail(format("{} does not know how job {} ended", object.meta.name, job.id.value));
  }
}

void ObjectChecker::finish() {
  for (const auto& [key, object] : objects_)
    if (object->type == kSetType || object->type == kReplicaType)
      verdict_.fail(
          format("{} {} was deleted, or has lost its owners, and is still there", object->type, object->meta.name));
}

}  // namespace lockstep::sim
