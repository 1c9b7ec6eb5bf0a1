// PressureWatch: looks again and again at what this node has left of memory, disk and processes, and says when that is
// too little. Before it says so of the disk, images that nobody uses go.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/shortages.h"
#include "io/errand.h"
#include "io/local/cgroups.h"
#include "io/shortage_looks.h"
#include "ports/clock.h"
#include "ports/loop.h"
#include "wire/local_files.h"

namespace lockstep {

class PressureWatch {
 public:
  struct Asks {
    std::function<void(std::vector<Shortage>)> told;       // the controller is to hear it (again)
    std::function<void(std::uint64_t bytes)> drop_images;  // as many that nobody uses as take so much
  };
  // settings: outlive it. groups: of this node's work; null where it has none.
  PressureWatch(EventLoop& loop, const Clock& clock, const AgentFile& settings, std::shared_ptr<const Cgroups> groups,
                Asks asks);
  void start();

 private:
  void look();
  void look_later();
  void take(const Stocks& seen);

  EventLoop& loop_;
  const Clock& clock_;
  const AgentFile& settings_;
  Asks asks_;
  ShortageBook book_;
  StockAsk ask_;
  bool images_dropped_ = false;  // since the disk ran short: what is short now is so without them
  Errand errand_;
};

}  // namespace lockstep
