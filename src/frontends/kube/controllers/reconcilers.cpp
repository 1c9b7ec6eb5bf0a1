#include "frontends/kube/controllers/reconcilers.h"

#include <algorithm>

#include "base/mutant.h"

namespace lockstep::kube {

namespace {

constexpr Duration kPauseFirst = millis(5), kPauseMost = seconds(30);

}  // namespace

void Reconcilers::restart(std::span<const Change> snapshot) {
  view_ = ObjectView();
  due_.clear();
  later_.clear();
  held_.clear();
  asked_.clear();
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (const ObjectKey& key : all_[i]->first_keys()) due_.insert({i, key});
  observe(snapshot);
}

void Reconcilers::observe(std::span<const Change> changes) {
  for (const Change& change : changes) {
    view_.apply(change);
    wake(change);
  }
}

void Reconcilers::wake(const Change& change) {
  const auto* object = std::get_if<Ref<Object>>(&change.record);
  std::vector<ObjectKey> keys;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    keys.clear();
    if (object)
      all_[i]->woken_by(view_, **object, keys);
    else
      all_[i]->woken_by_record(view_, change, keys);
    for (ObjectKey& key : keys) look_at({i, std::move(key)});
  }
}

// What waits for its answers is looked at when they are there.
void Reconcilers::look_at(Work work) {
  if (const auto held = held_.find(work); held == held_.end() || held->second.open == 0)
    due_.insert(std::move(work));
}

Actor::Turn Reconcilers::step(Instant now, ActorBudget budget) {
  while (!later_.empty() && later_.begin()->first <= now) look_at(later_.extract(later_.begin()).value().second);
  Turn turn;
  std::size_t looks = budget.looks;
  for (; !due_.empty() && looks > 0 && turn.asks.size() < budget.commands; --looks) {
    const Work work = due_.extract(due_.begin()).value();
    Wishes wishes;
    if (const auto held = held_.find(work); held != held_.end())
      wishes.refused = std::exchange(held->second.why, {});
    all_[work.first]->reconcile(view_, work.second, now, wishes);
    if (wishes.again != kNever)
      later_.insert({wishes.again, work});
    if (wishes.wishes.empty()) {
      held_.erase(work);
      continue;
    }
    Held& waits = held_[work];
    waits.refused = false;
    for (auto& wish : wishes.wishes) {
      asked_[++last_ask_] = work;
      ++waits.open;
      if (mutant(Mutant::kStaleController))
        wish.read = {};
      turn.asks.push_back({last_ask_, std::move(wish.body), std::move(wish.read), std::move(wish.also)});
    }
  }
  return turn;
}

void Reconcilers::answered(std::uint64_t id, const Result<Answer>& answer, Instant now) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end())
    return;
  const Work work = asked->second;
  asked_.erase(asked);
  Held& held = held_[work];
  held.refused |= !answer.ok();
  if (!answer.ok() && answer.error().code != Errc::kConflict && answer.error().code != Errc::kNotFound)
    held.why = answer.error().message;
  if (--held.open > 0)
    return;
  if (!held.refused) {
    held_.erase(work);
    due_.insert(work);
    return;
  }
  held.pause = std::clamp(held.pause * 2, kPauseFirst, kPauseMost);
  later_.insert({now + held.pause, work});
}

Instant Reconcilers::next_timer() const {
  return !due_.empty() ? Instant{} : later_.empty() ? kNever : later_.begin()->first;
}

}  // namespace lockstep::kube
