// What jobs have left that are not on this node any more: everything goes, but for logs of sandboxes' containers, which
// people read when these have ended. They stay for a day, and the oldest go first where there are many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct LogsKept {
  std::int64_t seconds = 24 * 3600;
  std::size_t sandboxes_max = 2000;
  std::uint64_t bytes_max = 4ull << 30;
  // What changed so shortly ago may be of a job that has come since the list was made.
  std::int64_t settled_seconds = 10;
};
// In HOME/jobs.
Result<void> sweep_sandboxes(const std::string& home, const std::vector<std::string>& jobs_here,
                             const LogsKept& kept = {});

}  // namespace lockstep
