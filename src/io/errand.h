// A piece of blocking work beside a loop, one at a time: on a thread of its own, with its end told on the loop's.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "ports/loop.h"

namespace lockstep {

class Errand {
 public:
  explicit Errand(EventLoop& loop);
  ~Errand();  // waits for the end of the work; of that nobody is told any more
  Errand(Errand&&) = delete;

  bool is_out() const { return is_out_; }
  // kExhausted: there is no thread to be had, and nothing has begun. Only when !is_out().
  Result<void> start(std::function<Result<void>()> work, std::function<void(Result<void>)> done);

 private:
  EventLoop& loop_;
  struct Runner;  // the thread, if there was one
  std::unique_ptr<Runner> runner_;
  std::shared_ptr<const bool> here_ = std::make_shared<const bool>(true);  // until we are gone
  bool is_out_ = false;
};

}  // namespace lockstep
