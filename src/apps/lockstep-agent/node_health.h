// NodeHealth: looks again and again at whether this node is fit for work: the built-in checks, and the site's own
// program. What it finds is a sentence for the controller, which closes the node while something is bad.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/health.h"
#include "io/errand.h"
#include "io/health_looks.h"
#include "model/resources.h"
#include "ports/clock.h"
#include "ports/loop.h"
#include "wire/local_files.h"

namespace lockstep {

class NodeHealth {
 public:
  struct Asks {
    std::function<std::set<std::uint64_t>()> jobs;  // that are here
    std::function<void()> changed;                  // bad() or suspect() say something else
  };
  // settings: outlive it.
  NodeHealth(EventLoop& loop, const Clock& clock, const AgentFile& settings, Asks asks);
  ~NodeHealth();
  void start();
  // What the machine's GPUs are now; why: they could not be asked. Fewer than there were at the start is bad.
  // faults: by their places, what is known of one besides; "" or left out = nothing.
  void see_devices(const std::vector<Device>& devices, const std::vector<std::string>& faults = {});
  void see_no_devices(const std::string& why);
  // How far this machine's clock is ahead of the controller's (negative: behind), to within `blur`.
  void see_clock(Duration ahead, Duration blur);

  std::string bad() const { return book_.bad(); }
  std::string suspect() const { return book_.suspect(); }

 private:
  void look();
  void look_later();
  void run_program();
  void run_program_later(Duration wait);
  bool is_time_for_program() const;
  Duration first_wait() const;
  void take(const std::vector<std::string>& checks, const std::vector<LookFinding>& findings);

  EventLoop& loop_;
  const Clock& clock_;
  const AgentFile& settings_;
  Asks asks_;
  HealthBook book_;
  std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);  // nobody waits any more
  HealthPlaces places_;
  std::shared_ptr<MemoryErrors> memory_ = std::make_shared<MemoryErrors>();
  std::size_t devices_most_ = 0;
  Errand look_, program_;
};

}  // namespace lockstep
