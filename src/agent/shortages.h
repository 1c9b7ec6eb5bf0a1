// ShortageBook: of what its node runs short, by what is left and what its settings want. Once it was short of something
// it says so for a while longer, so that work does not come back at once and leave again.
#pragma once

#include <map>
#include <vector>

#include "base/time.h"
#include "model/node.h"
#include "wire/local_files.h"
#include "wire/shortage_bounds.h"

namespace lockstep {

// What is left of something, in bytes, files or processes.
struct Stock {
  Shortage::What what = Shortage::What::kMemory;
  std::int64_t available = 0, total = 0;
};

class ShortageBook {
 public:
  // Bounds that mean nothing are none: whoever reads the settings has refused them.
  explicit ShortageBook(const NodePressure& settings);
  // One look; what it does not name stays as it was. True: the controller is to hear all() (again). Each look at
  // something of which the node is short is told, since who makes room goes by the latest.
  bool take(const std::vector<Stock>& stocks, Instant now);
  bool is_short(const Stock& stock) const;
  std::int64_t threshold(const Stock& stock) const;  // 0 = nobody minds how much is left
  std::vector<Shortage> all() const;                 // sorted by what; since and measured are the cluster's to say

 private:
  struct Known {
    Shortage shortage;
    Instant acute_at;  // the last time
  };
  std::map<Shortage::What, ShortageBound> bounds_;
  Duration lasts_;
  std::map<Shortage::What, Known> known_;
};

}  // namespace lockstep
