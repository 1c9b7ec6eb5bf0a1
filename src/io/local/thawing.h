// While it lives, what is paused on nodes of a local cluster is let go on, again and again: under version 1 of the
// control groups no signal reaches a frozen process, and its node cannot end before it.
#pragma once

#include <atomic>
#include <string>

#include "base/thread.h"

namespace lockstep {

class Thawing {
 public:
  // node: "" = all of them.
  explicit Thawing(const std::string& cluster_id, const std::string& node = {});
  ~Thawing();
  Thawing(const Thawing&) = delete;
  Thawing& operator=(const Thawing&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace lockstep
