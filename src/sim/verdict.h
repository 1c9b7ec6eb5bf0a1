// Verdict: what the checkers found. The first complaint ends a run; notes are the last things that happened before it.
#pragma once

#include <deque>
#include <string>

#include "base/text.h"
#include "base/time.h"

namespace lockstep::sim {

class Verdict {
 public:
  void fail(std::string words) {
    if (failure_.empty())
      failure_ = std::move(words);
  }
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  // Notes cost time, so they are only kept when a failing seed is run again to be told about.
  bool noting = false;
  std::size_t notes_max = 80;
  void note(Instant at, std::string words) {
    if (notes_.size() >= notes_max)
      notes_.pop_front();
    notes_.push_back(format("{:12.6f} {}", static_cast<double>(at.us - origin.us) / 1e6, words));
  }
  const std::deque<std::string>& notes() const { return notes_; }
  Instant origin;

 private:
  std::string failure_;
  std::deque<std::string> notes_;
};

}  // namespace lockstep::sim
