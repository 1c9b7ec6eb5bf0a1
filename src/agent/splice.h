// Splices: pairs of streams whose bytes flow into each other, both ways, no faster than the slower side takes them.
// When one side ends, the other is closed behind everything that was passed on; cut off where the one was.
#pragma once

#include <map>
#include <memory>

#include "ports/loop.h"

namespace lockstep {

class Splices {
 public:
  explicit Splices(EventLoop& loop) : loop_(loop), alive_(std::make_shared<int>(0)) {}

  // Shared only because a stream may wait in a timer's task before it gets here.
  void join(std::shared_ptr<Stream> a, std::shared_ptr<Stream> b);
  std::size_t size() const { return pairs_.size(); }

 private:
  struct Pair {
    std::shared_ptr<Stream> a, b;
    bool ending = false;
  };
  void connect(std::uint64_t id, Stream& from, Stream& to);
  void end(std::uint64_t id, Stream& other, bool was_cut);

  EventLoop& loop_;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Pair> pairs_;
  std::shared_ptr<int> alive_;  // posted tasks must not touch us afterwards
};

}  // namespace lockstep
