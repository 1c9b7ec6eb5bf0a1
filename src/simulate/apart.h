// Runs one seed in a process of its own, so that a CHECK that fails or a run without end is a finding like any other.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::sim {

struct Apart {
  enum class End : unsigned char { kWell, kOutOfTime, kDied } end = End::kDied;
  std::vector<std::string> lines;  // what it wrote
};
// work: in the child; what it returns is its output. on_abort: in the child when a CHECK stops it, before it dies; may
// write to standard error, which is part of the output. cpu_seconds: of computing, at most.
Apart run_apart(const std::function<std::string()>& work, void (*on_abort)(int), long cpu_seconds);

}  // namespace lockstep::sim
