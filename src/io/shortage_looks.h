// What a node has left of memory, disk and processes. It may wait for a disk, so it is asked on a thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "io/local/cgroups.h"

namespace lockstep {

struct StockAsk {
  std::string disk;            // a directory of the file system that is looked at; "" = none is
  std::int64_t disk_mb = 0;    // what of it is the node's, which is what lies in that directory; 0 = all of it
  std::int64_t memory_mb = 0;  // what of the machine's is the node's; 0 = all of it
  std::shared_ptr<const Cgroups> groups;  // of the node's work; null = nothing tells what it holds
  bool processes = false;
};

struct StockOf {
  std::int64_t available = 0, total = 0;
};
struct Stocks {  // none: it could not be found out, or is not asked for
  std::optional<StockOf> memory, disk, files, processes;
};
Stocks look_at_stocks(const StockAsk& ask);

}  // namespace lockstep
