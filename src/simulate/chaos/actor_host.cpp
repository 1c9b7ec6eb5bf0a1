#include "simulate/chaos/actor_host.h"

#include "simulate/chaos/world.h"

namespace lockstep::sim {

void ActorHost::begin(One& one, std::span<const Change> snapshot) {
  one.actor = make_();
  one.inbox.clear();
  one.alarm = kNever;
  one.life = ++lives_;
  one.actor->restart(snapshot);
  wake(one);
}

void ActorHost::start(std::span<const Change> snapshot) {
  all_.clear();
  all_.push_back(std::make_unique<One>());
  begin(*all_.front(), snapshot);
}

void ActorHost::end() { all_.clear(); }

void ActorHost::observe(const std::vector<Change>& changes) {
  for (auto& one : all_) {
    one->inbox.push_back(changes);
    wake(*one);
  }
}

void ActorHost::disturb(Duration most, std::span<const Change> snapshot) {
  if (all_.empty())
    return;
  One& one = *all_[dice_.below(all_.size())];
  const std::string name = one.actor->name();
  const Duration time = micros(dice_.between(1, most.us));
  switch (dice_.below(3)) {
    case 0:
      world_.note(format("{}: begins anew", name));
      begin(one, snapshot);
      return;
    case 1:
      world_.note(format("{}: stands still for {} ms", name, time.millis()));
      one.stopped_until = world_.timeline.now() + time;
      return;
    default:
      if (all_.size() > 1)
        return;
      world_.note(format("{}: a second one for {} ms", name, time.millis()));
      all_.push_back(std::make_unique<One>());
      begin(*all_.back(), snapshot);
      world_.timeline.after(time, [this, life = all_.back()->life] {
        if (all_.size() > 1 && alive(life))  // which of the two goes is open
          all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(dice_.below(2)));
      });
  }
}

void ActorHost::calm() {
  if (all_.size() > 1)
    all_.pop_back();
  for (auto& one : all_) {
    one->stopped_until = {};
    wake(*one);
  }
}

ActorHost::One* ActorHost::alive(std::uint64_t life) {
  for (auto& one : all_)
    if (one->life == life)
      return one.get();
  return nullptr;
}

void ActorHost::wake(One& one) { alarm_at(one, world_.timeline.now() + micros(dice_.between(50, 2000))); }

void ActorHost::alarm_at(One& one, Instant when) {
  if (when >= one.alarm)
    return;
  one.alarm = when;
  world_.timeline.at(when, [this, life = one.life, when] {
    One* it = alive(life);
    if (!it || it->alarm != when)
      return;
    it->alarm = kNever;
    run(*it);
  });
}

void ActorHost::run(One& one) {
  const Instant now = world_.timeline.now();
  if (now < one.stopped_until)
    return alarm_at(one, one.stopped_until);
  std::size_t unread = dice_.chance(0.1) ? dice_.below(one.inbox.size() + 1) : 0;
  for (; one.inbox.size() > unread; one.inbox.pop_front())
    if (auto* changes = std::get_if<std::vector<Change>>(&one.inbox.front())) {
      one.actor->observe(*changes);
    } else {
      const auto& answered = std::get<Answered>(one.inbox.front());
      one.actor->answered(answered.id, answered.answer, now);
    }
  if (one.actor->next_timer() <= now)
    step(one);
  if (!one.inbox.empty())
    wake(one);
  if (const Instant next = one.actor->next_timer(); next < kNever)
    alarm_at(one, std::max(next, now + micros(dice_.between(20, 400))));
}

void ActorHost::step(One& one) {
  ActorBudget budget;
  if (dice_.chance(0.2))
    budget = {static_cast<std::uint32_t>(dice_.between(1, 8)), static_cast<std::uint32_t>(dice_.between(1, 4))};
  Actor::Turn turn = one.actor->step(world_.timeline.now(), budget);
  if (handlers_.on_turn)
    handlers_.on_turn(turn, one.inbox.empty());
  for (Actor::Ask& ask : turn.asks)
    world_.timeline.after(micros(dice_.between(50, 20'000)), [this, life = one.life, ask = std::move(ask)]() mutable {
      if (!alive(life) && !dice_.chance(0.5))  // what is under way may still arrive
        return;
      if (all_.empty())
        return;
      handlers_.submit({{UserId{}, true}, std::move(ask.body), {}, std::move(ask.read), std::move(ask.also)},
                       [this, life, id = ask.id](const Result<Answer>& answer) {
                         if (One* asker = alive(life)) {
                           asker->inbox.push_back(Answered{id, answer});
                           wake(*asker);
                         }
                       });
    });
}

}  // namespace lockstep::sim
