#include "controller/followers.h"

#include <vector>

#include "base/mutant.h"
#include "base/text.h"

namespace lockstep {

Followers::~Followers() {
  for (const auto& [id, follower] : all_)
    for (const TimerId timer : {follower.end, follower.unread})
      if (timer)
        loop_.cancel(timer);
}

Result<void> Followers::room(const Payer& payer) const {
  const auto held = by_payer_.find(payer.name);
  if (payer.reserved || held == by_payer_.end() || held->second < most_.each)
    return {};
  return Error{Errc::kExhausted,
               format("{} follows {} answers at once already: end some of them first", payer.name, held->second),
               "waits"};
}

void Followers::add(const Payer& payer, std::unique_ptr<Stream> stream, Pull pull, Duration longest) {
  const std::uint64_t id = next_++;
  Follower& follower = all_[id];
  ++by_payer_[payer.name];
  follower.payer = payer;
  follower.stream = std::move(stream);
  follower.pull = std::move(pull);
  if (longest < kForever)
    follower.end = loop_.after(longest, [this, id] {
      all_.at(id).end = 0;
      finish(id);
    });
  follower.stream->on_drained([this, id] {
    const auto it = all_.find(id);
    if (it == all_.end() || !it->second.unread)
      return;
    loop_.cancel(std::exchange(it->second.unread, 0));
    wake(id);
  });
  // The stream is calling us: it is destroyed from the loop.
  follower.stream->on_close([this, id] {
    loop_.post([this, id, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired() && !mutant(Mutant::kWatchLeak))
        drop(id);
    });
  });
  wake(id);
}

void Followers::changed() {
  for (auto& [id, follower] : all_)
    if (!follower.unread)
      wake(id);
}

void Followers::wake(std::uint64_t id) {
  Follower& follower = all_.at(id);
  if (follower.woken)
    return;
  follower.woken = true;
  turns_.add_later(follower.payer, [this, id] {
    if (const auto it = all_.find(id); it != all_.end()) {
      it->second.woken = false;
      look(id);
    }
  });
}

void Followers::look(std::uint64_t id) {
  const auto it = all_.find(id);
  if (it == all_.end())
    return;
  Follower& follower = it->second;
  for (;;) {
    if (follower.stream->unsent() > most_.ahead)
      return await_reader(id);
    std::string piece;
    const Pulled pulled = follower.pull(piece);
    if (!piece.empty())
      follower.stream->write(std::move(piece));
    if (pulled == Pulled::kEnd)
      return finish(id);
    if (pulled == Pulled::kNothing)
      return;
    if (turns_.slice_over())
      return turns_.go_on([this, id] { look(id); });
  }
}

void Followers::await_reader(std::uint64_t id) {
  Follower& follower = all_.at(id);
  if (follower.unread)
    return;
  follower.unread = loop_.after(most_.unread, [this, id, before = follower.stream->unsent()] {
    Follower& slow = all_.at(id);
    slow.unread = 0;
    if (slow.stream->unsent() < before)
      return look(id);
    slow.stream->cut();
    drop(id);
  });
}

// What was written still leaves.
void Followers::finish(std::uint64_t id) {
  if (const auto it = all_.find(id); it != all_.end())
    it->second.stream->close();
  drop(id);
}

void Followers::drop(std::uint64_t id) {
  const auto it = all_.find(id);
  if (it == all_.end())
    return;
  const Follower gone = std::move(it->second);
  all_.erase(it);
  for (const TimerId timer : {gone.end, gone.unread})
    if (timer)
      loop_.cancel(timer);
  if (const auto held = by_payer_.find(gone.payer.name); --held->second == 0)
    by_payer_.erase(held);
}

}  // namespace lockstep
