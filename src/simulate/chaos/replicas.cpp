#include "simulate/chaos/replicas.h"

#include <algorithm>

#include "base/text.h"
#include "model/spec.h"
#include "sim/object_checker.h"

namespace lockstep::sim {

namespace {

const OwnerRef* controller_ref(const Object& object) {
  if (object.meta.extra)
    for (const OwnerRef& owner : object.meta.extra->owners)
      if (owner.controller)
        return &owner;
  return nullptr;
}

bool is_deleting(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

Ref<JobSpec> job_of_replica(UserId user, Rng& dice) {
  auto spec = std::make_shared<JobSpec>();
  spec->name = "replica";
  spec->user = user;
  spec->time_limit = seconds(dice.between(5, 600));
  GroupSpec group;
  group.launch = Launch::kTasks;
  group.argv = {"sim", format("run={}", dice.between(100, 60'000))};
  spec->groups.push_back(std::move(group));
  return spec;
}

}  // namespace

void Replicas::observe(std::span<const Change> changes) {
  for (const Change& change : changes) {
    seen_ = std::max(seen_, change.seq);
    if (const auto* user = std::get_if<Ref<User>>(&change.record); user && !user_)
      user_ = (*user)->id;
    const auto* ref = std::get_if<Ref<Object>>(&change.record);
    if (!ref || ((*ref)->type != kSetType && (*ref)->type != kReplicaType))
      continue;
    const Object& object = **ref;
    const ObjectKey key{object.type, object.meta.ns, object.meta.name};
    if (const auto known = objects_.find(key); known != objects_.end())
      if (const OwnerRef* owner = controller_ref(*known->second))
        owned_[owner->uid].erase(key);
    if (change.removed)
      objects_.erase(key);
    else
      objects_[key] = *ref;
    if (object.type == kSetType) {
      if (change.removed)
        sets_.erase(object.meta.uid);
      else
        sets_[object.meta.uid] = key;
      looks_.insert(key);
    } else if (const OwnerRef* owner = controller_ref(object)) {
      if (!change.removed)
        owned_[owner->uid].insert(key);
      if (const auto set = sets_.find(owner->uid); set != sets_.end())
        looks_.insert(set->second);
    }
  }
}

Actor::Ask Replicas::make(const Object& set) {
  Object replica;
  replica.type = kReplicaType;
  replica.meta.name = format("{}-{:06x}", set.meta.name, dice_.below(1 << 24));
  auto extra = std::make_shared<MetaExtra>();
  extra->owners = {{Kind::kObject, set.meta.uid, set.meta.name, true, true}};
  replica.meta.extra = std::move(extra);
  replica.shows = {{.kind = Kind::kJob}};
  Reading read{.records = {{ObjectKey{set.type, set.meta.ns, set.meta.name}, set.meta.seq},
                           {ObjectKey{replica.type, "", replica.meta.name}, 0}},
               .dependents = {{set.meta.uid, seen_}}};
  SubmitJob submit{.spec = job_of_replica(user_, dice_)};
  submit.objects.push_back(std::move(replica));
  return {++last_ask_, std::move(submit), std::move(read)};
}

Actor::Ask Replicas::remove(const Object& set, const Object& replica) const {
  return {last_ask_ + 1,
          RemoveObject{replica.type, replica.meta.ns, replica.meta.name, replica.meta.seq},
          {.records = {{ObjectKey{set.type, set.meta.ns, set.meta.name}, set.meta.seq}},
           .dependents = {{set.meta.uid, seen_}}}};
}

Actor::Turn Replicas::step(Instant now, ActorBudget budget) {
  Turn turn;
  if (now < not_before_)
    return turn;
  for (auto at = looks_.begin(); at != looks_.end() && turn.asks.size() < budget.commands;) {
    const ObjectKey key = *at;
    at = looks_.erase(at);
    const auto set = objects_.find(key);
    if (set == objects_.end() || is_deleting(*set->second) || under_way_.contains(key) || !user_)
      continue;
    std::vector<const Object*> replicas;
    for (const ObjectKey& one : owned_[set->second->meta.uid])
      if (const Object& replica = *objects_.at(one); !is_deleting(replica))
        replicas.push_back(&replica);
    const std::uint64_t wanted = parse_uint(set->second->body).value_or(0);
    if (replicas.size() == wanted)
      continue;
    turn.asks.push_back(replicas.size() < wanted ? make(*set->second) : remove(*set->second, *replicas.back()));
    last_ask_ = turn.asks.back().id;
    asked_[last_ask_] = key;
    under_way_.insert(key);
  }
  return turn;
}

void Replicas::answered(std::uint64_t id, const Result<Answer>& answer, Instant now) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end())
    return;
  looks_.insert(asked->second);
  under_way_.erase(asked->second);
  asked_.erase(asked);
  if (!answer.ok())
    not_before_ = now + millis(answer.error().code == Errc::kConflict ? 20 : 500);
}

}  // namespace lockstep::sim
