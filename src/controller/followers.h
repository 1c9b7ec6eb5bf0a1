// Followers: streamed answers. Each is asked for its next piece in its caller's turn: at once, whenever records have
// changed, and whenever its client has read what was written. One whose client does not read is cut off.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "controller/turns.h"
#include "ports/loop.h"
#include "routes/front_end.h"

namespace lockstep {

class Followers {
 public:
  struct Most {
    std::size_t each = 1'000;       // of one caller; administrators have no bound
    Duration unread = seconds(30);  // nothing of what waits is read for so long: cut off
    std::size_t ahead = 64 << 10;   // bytes that may wait to be read before more is asked for
  };
  Followers(EventLoop& loop, FairTurns& turns, Most most) : loop_(loop), turns_(turns), most_(most) {}
  ~Followers();

  // Whether the caller may have one more; kExhausted with field "waits".
  Result<void> room(const Payer& payer) const;
  void add(const Payer& payer, std::unique_ptr<Stream> stream, Pull pull, Duration longest);
  void changed();  // records have
  std::size_t following() const { return all_.size(); }

 private:
  struct Follower {
    Payer payer;
    std::unique_ptr<Stream> stream;
    Pull pull;
    TimerId end = 0;     // when it has lasted long enough
    TimerId unread = 0;  // runs while more waits to be read than may
    bool woken = false;  // its look is queued
  };
  void wake(std::uint64_t id);
  void look(std::uint64_t id);
  void await_reader(std::uint64_t id);
  void finish(std::uint64_t id);
  void drop(std::uint64_t id);

  EventLoop& loop_;
  FairTurns& turns_;
  Most most_;
  std::map<std::uint64_t, Follower> all_;
  std::map<std::string, std::size_t> by_payer_;  // how many; none is 0
  std::uint64_t next_ = 1;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // what was posted may come after us
};

}  // namespace lockstep
