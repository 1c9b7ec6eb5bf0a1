#include "controller/collector.h"

#include <algorithm>

#include "base/mutant.h"
#include "model/command.h"
#include "model/job.h"

namespace lockstep {

namespace {

constexpr Duration kRefusedPauseMost = seconds(5);  // of what is refused again and again

const std::vector<OwnerRef>& owners_of(const Meta& meta) {
  static const std::vector<OwnerRef> none;
  return meta.extra ? meta.extra->owners : none;
}

bool deleting(const Object& object) { return object.meta.extra && object.meta.extra->deleting; }

bool has_finalizer(const Object& object, std::string_view name) {
  return object.meta.extra && std::find(object.meta.extra->finalizers.begin(), object.meta.extra->finalizers.end(),
                                        name) != object.meta.extra->finalizers.end();
}

// The same object with another envelope, if it is still this version.
template <class Edit>
PutObject edited(const Object& object, Edit edit) {
  PutObject put{object, object.meta.seq};
  auto extra = std::make_shared<MetaExtra>(*object.meta.extra);
  edit(*extra);
  put.object.meta.extra = std::move(extra);
  return put;
}

}  // namespace

void Collector::restart(std::span<const Change> snapshot) {
  const std::uint64_t last_ask = last_ask_;  // answers to what was asked before may still come
  *this = Collector();
  last_ask_ = last_ask;
  observe(snapshot);
}

void Collector::observe(std::span<const Change> changes) {
  for (const Change& change : changes) {
    if (const auto* object = std::get_if<Ref<Object>>(&change.record))
      saw(change, *object);
    else if (const auto* job = std::get_if<Ref<Job>>(&change.record))
      saw(change, *job);
    seen_ = std::max(seen_, change.seq);
  }
}

void Collector::saw(const Change& change, const Ref<Object>& object) {
  const Uid uid = object->meta.uid;
  Ref<Object>& known = objects_[uid];
  if (known)
    unlink(uid, known->meta);
  const bool began = !change.removed && deleting(*object) && !(known && deleting(*known));
  known = object;
  if (change.removed) {
    objects_.erase(uid);
    looks_.erase(uid);
  } else {
    link(uid, object->meta);
    looks_.insert(uid);
  }
  if (change.removed || began)
    look_at_dependents(uid);
}

void Collector::saw(const Change& change, const Ref<Job>& job) {
  const auto known = jobs_.find(job->id);
  if (known != jobs_.end()) {
    unlink(job->id, known->second->meta);
    jobs_.erase(known);
  }
  looks_.erase(job->id);
  if (change.removed || is_final(job->state))
    cancelled_.erase(job->id);
  if (change.removed || is_final(job->state) || owners_of(job->meta).empty())
    return;
  jobs_[job->id] = job;
  link(job->id, job->meta);
  looks_.insert(job->id);
}

void Collector::link(const Key& key, const Meta& meta) {
  for (const OwnerRef& owner : owners_of(meta)) {
    Owned& owned = owned_[owner.uid];
    owned.blocking += owned.dependents.insert(key).second && owner.blocks;
  }
}

void Collector::unlink(const Key& key, const Meta& meta) {
  for (const OwnerRef& owner : owners_of(meta)) {
    const auto at = owned_.find(owner.uid);
    if (at == owned_.end() || at->second.dependents.erase(key) == 0)
      continue;  // one owner twice
    at->second.blocking -= owner.blocks;
    if (at->second.dependents.empty())
      owned_.erase(at);
    if (const auto it = objects_.find(owner.uid); it != objects_.end() && deleting(*it->second))
      looks_.insert(owner.uid);  // it may have waited for this
  }
}

void Collector::look_at_dependents(Uid owner) {
  if (mutant(Mutant::kOrphanLeft))
    return;
  if (const auto owned = owned_.find(owner); owned != owned_.end())
    walks_[owner] = *owned->second.dependents.begin();
}

Collector::Standing Collector::standing(Uid owner, const Object& dependent) const {
  const auto it = objects_.find(owner);
  if (it == objects_.end())
    return Standing::kGone;
  // Nobody owns anything in another room than his own: there he is nobody. What is in no room is not owned by what is
  // in one, and so it stays.
  const std::string &room = it->second->meta.ns, &own = dependent.meta.ns;
  if (!room.empty() && room != own)
    return own.empty() ? Standing::kThere : Standing::kGone;
  return standing(*it->second);
}

Collector::Standing Collector::standing(Uid owner) const {
  const auto it = objects_.find(owner);
  return it == objects_.end() ? Standing::kGone : standing(*it->second);
}

Collector::Standing Collector::standing(const Object& object) {
  if (!deleting(object))
    return Standing::kThere;
  return has_finalizer(object, kOrphan)       ? Standing::kOrphans
         : has_finalizer(object, kForeground) ? Standing::kForeground
                                              : Standing::kGoing;
}

bool Collector::shows(Uid owner, JobId job) const {
  const auto it = objects_.find(owner);
  return it != objects_.end() && std::ranges::any_of(it->second->shows, [&](const Shown& shown) {
           return shown.kind == Kind::kJob && shown.job == job;
         });
}

// A finalizer of its own goes when what it stands for is done.
std::optional<Actor::Ask> Collector::finish(const Object& object) const {
  const auto owned = owned_.find(object.meta.uid);
  const bool alone = owned == owned_.end();
  for (const auto& [finalizer, done] : {std::pair{kOrphan, alone}, {kForeground, alone || owned->second.blocking == 0}})
    if (done && has_finalizer(object, finalizer))
      return Ask{0,
                 edited(object, [name = finalizer](MetaExtra& extra) { std::erase(extra.finalizers, name); }),
                 {.dependents = {{object.meta.uid, seen_}}}};
  return std::nullopt;
}

// Whether its owners would wait for it, and it for a dependent that waits already, perhaps for them. As in Kubernetes
// no circle is searched for: its owners do without it, at worst they go a little early.
bool Collector::may_close_circle(const Object& object) const {
  constexpr int kLooksMost = 100;
  const auto owned = owned_.find(object.meta.uid);
  if (owned == owned_.end() || std::ranges::none_of(owners_of(object.meta), &OwnerRef::blocks))
    return false;
  int looks = 0;
  for (const Key& key : owned->second.dependents) {
    if (++looks > kLooksMost)
      return false;
    const auto* uid = std::get_if<Uid>(&key);
    const auto dependent = uid ? objects_.find(*uid) : objects_.end();
    if (dependent != objects_.end() && deleting(*dependent->second) && has_finalizer(*dependent->second, kForeground))
      return true;
  }
  return false;
}

std::optional<Actor::Ask> Collector::decide(const Object& object) const {
  if (deleting(object))
    return finish(object);
  const auto& owners = owners_of(object.meta);
  bool kept = owners.empty(), orphaned = false, waited_for = false;
  std::set<Uid> lost;
  for (const OwnerRef& owner : owners) {
    const Standing how = standing(owner.uid, object);
    orphaned |= how == Standing::kOrphans;
    waited_for |= how == Standing::kForeground;
    kept |= how == Standing::kThere || how == Standing::kGoing;
    if (how == Standing::kOrphans || how == Standing::kForeground || how == Standing::kGone)
      lost.insert(owner.uid);
  }
  // Who stays because of others is not waited for, and forgets those that go.
  if (orphaned || (kept && !lost.empty()))
    return Ask{0,
               edited(object,
                      [&](MetaExtra& extra) {
                        std::erase_if(extra.owners, [&](const OwnerRef& one) {
                          return lost.contains(one.uid) && (kept || standing(one.uid, object) == Standing::kOrphans);
                        });
                      }),
               {}};
  if (kept)
    return std::nullopt;
  if (may_close_circle(object))
    return Ask{0,
               edited(object,
                      [](MetaExtra& extra) {
                        for (OwnerRef& owner : extra.owners) owner.blocks = false;
                      }),
               {}};
  const bool waits = waited_for && owned_.contains(object.meta.uid);
  using enum RemoveObject::Dependents;
  return Ask{
      0,
      RemoveObject{object.type, object.meta.ns, object.meta.name, object.meta.seq, waits ? kForeground : kBackground},
      {}};
}

std::optional<Actor::Ask> Collector::decide(const Job& job) const {
  if (cancelled_.contains(job.id))
    return std::nullopt;
  const Reading read{.records = {{job.id, job.meta.seq}}};
  for (const OwnerRef& owner : owners_of(job.meta)) {
    const Standing how = standing(owner.uid);
    if (how == Standing::kOrphans && shows(owner.uid, job.id))
      continue;  // the object is that work: it goes when this has ended, whatever becomes of its dependents
    if (how == Standing::kOrphans)
      return Ask{0, DisownJob{job.id, owner.uid}, read};
    if (owner.controller && how != Standing::kThere)
      return Ask{0, CancelJob{{job.id, {}}}, read};
  }
  return std::nullopt;
}

std::optional<Actor::Ask> Collector::decide(const Key& key) const {
  if (const auto* id = std::get_if<JobId>(&key)) {
    const auto job = jobs_.find(*id);
    return job == jobs_.end() ? std::nullopt : decide(*job->second);
  }
  const auto object = objects_.find(std::get<Uid>(key));
  return object == objects_.end() ? std::nullopt : decide(*object->second);
}

Actor::Turn Collector::step(Instant now, ActorBudget budget) {
  Turn turn;
  commands_max_ = budget.commands;
  if (now < not_before_)
    return turn;
  std::size_t looks = budget.looks;
  while (looks > 0 && !walks_.empty()) {
    const auto walk = walks_.begin();
    const auto owned = owned_.find(walk->first);
    auto at = owned == owned_.end() ? std::set<Key>::iterator() : owned->second.dependents.lower_bound(walk->second);
    if (owned == owned_.end() || at == owned->second.dependents.end()) {
      walks_.erase(walk);
      continue;
    }
    looks_.insert(*at);
    --looks;
    if (++at == owned->second.dependents.end())
      walks_.erase(walk);
    else
      walk->second = *at;
  }
  for (auto at = looks_.begin(); at != looks_.end() && looks > 0 && under_way_.size() < budget.commands; --looks) {
    const Key key = *at;
    at = looks_.erase(at);
    if (under_way_.contains(key))
      continue;  // it is looked at again when the answer is there
    if (auto ask = decide(key)) {
      ask->id = ++last_ask_;
      asked_[ask->id] = {key, std::holds_alternative<CancelJob>(ask->body)};
      under_way_.insert(key);
      turn.asks.push_back(std::move(*ask));
    }
  }
  return turn;
}

void Collector::answered(std::uint64_t id, const Result<Answer>& answer, Instant now) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end())
    return;
  const auto [key, cancels] = asked->second;
  asked_.erase(asked);
  under_way_.erase(key);
  looks_.insert(key);
  if (const auto* job = std::get_if<JobId>(&key); job && cancels && answer.ok() && jobs_.contains(*job))
    cancelled_.insert(*job);
  if (answer.ok())
    pause_ = kPause;
  else if (answer.error().code == Errc::kConflict)
    not_before_ = now + kPause;
  else
    not_before_ = now + std::exchange(pause_, std::min(kRefusedPauseMost, Duration{pause_.us * 2}));
}

Instant Collector::next_timer() const {
  const bool busy = under_way_.size() >= commands_max_;
  return walks_.empty() && (looks_.empty() || busy) ? kNever : not_before_;
}

}  // namespace lockstep
