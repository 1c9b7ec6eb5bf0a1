#include "frontends/kube/controllers/reconcilers.h"

#include <algorithm>

#include "base/mutant.h"
#include "model/object_share.h"

namespace lockstep::kube {

namespace {

constexpr Duration kPauseFirst = millis(5), kPauseMost = seconds(30);
constexpr Duration kFullFirst = seconds(1), kFullMost = seconds(30);
constexpr std::uint64_t kLookCost = 8, kWishCost = 16;  // in objects looked at
constexpr std::uint64_t kCostMost = 50'000;             // of the looks of one step, but for the last

}  // namespace

void Reconcilers::restart(std::span<const Change> snapshot) {
  view_ = ObjectView();
  view_.ask_through(admission_.get());
  due_.clear();
  later_.clear();
  held_.clear();
  no_room_.clear();
  asked_.clear();
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (const ObjectKey& key : all_[i]->first_keys()) due_.add({i, key});
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
    due_.add(std::move(work));
}

Actor::Turn Reconcilers::step(Instant now, ActorBudget budget) {
  while (!later_.empty() && later_.begin()->first <= now) look_at(later_.extract(later_.begin()).value().second);
  Turn turn;
  std::size_t looks = budget.looks;
  const std::uint64_t looked = view_.looked();
  for (; !due_.empty() && looks > 0 && turn.asks.size() < budget.commands && view_.looked() - looked < kCostMost;
       --looks) {
    const Work work = due_.take();
    const std::uint64_t before = view_.looked();
    Wishes wishes;
    if (const auto held = held_.find(work); held != held_.end())
      wishes.refused = std::exchange(held->second.why, {});
    if (const auto full = no_room_.find(work); full != no_room_.end() && now < full->second.until)
      wishes.full = full->second.why;
    all_[work.first]->reconcile(view_, work.second, now, wishes);
    due_.charge(work, kLookCost + (view_.looked() - before) + kWishCost * wishes.wishes.size());
    if (wishes.again != kNever)
      later_.insert({wishes.again, work});
    if (wishes.asks && !wishes.refused.empty())
      held_[work].why = wishes.refused;
    if (wishes.wishes.empty()) {
      if (!wishes.asks)
        held_.erase(work);
      if (wishes.full.empty())
        no_room_.erase(work);
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
  if (!answer.ok() && answer.error().field.ends_with(kObjectShareField))
    note_room(work, answer.error(), now);
  else if (!answer.ok() && answer.error().code != Errc::kConflict && answer.error().code != Errc::kNotFound)
    held.why = answer.error().message;
  if (--held.open > 0)
    return;
  if (!held.refused) {
    if (held.why.empty())
      held_.erase(work);
    due_.add(work);
    return;
  }
  held.pause = std::clamp(held.pause * 2, kPauseFirst, kPauseMost);
  later_.insert({now + held.pause, work});
}

void Reconcilers::note_room(const Work& work, const Error& error, Instant now) {
  NoRoom& full = no_room_[work];
  full.why = error.message;
  if (now < full.until)
    return;  // another answer to the same look
  full.pause = std::clamp(full.pause * 2, kFullFirst, kFullMost);
  full.until = now + full.pause;
  later_.insert({full.until, work});
}

Instant Reconcilers::next_timer() const {
  return !due_.empty() ? Instant{} : later_.empty() ? kNever : later_.begin()->first;
}

}  // namespace lockstep::kube
