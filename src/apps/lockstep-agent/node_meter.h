// NodeMeter: measures this node and what runs on it, again and again: GPUs every second where there are any, work and
// the machine every 30 seconds, and soon after something has started; and lists the GPUs. Drivers and disks may make it
// wait, so it looks on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/errand.h"
#include "io/gpus/gpu_sampler.h"
#include "io/use_book.h"
#include "io/work_looks.h"
#include "model/agent_messages.h"
#include "ports/clock.h"
#include "ports/devices.h"
#include "ports/loop.h"
#include "wire/local_files.h"

namespace lockstep {

class NodeMeter {
 public:
  struct Asks {
    std::function<void(Telemetry)> measured;
    // A GPU has lost what computed on it: it does not answer, or has had an Xid of that kind.
    std::function<void(std::uint32_t index, const std::string& why)> broken;
    // Now and then, and when fault() says something else of one or the driver tells of a new error.
    std::function<void(Result<std::vector<Device>>)> devices;
  };
  // settings: outlive it. devices: that this machine has, as they were last.
  NodeMeter(EventLoop& loop, const Clock& clock, const AgentFile& settings, std::shared_ptr<const Cgroups> groups,
            std::unique_ptr<DeviceSource> source, std::size_t devices, Asks asks);
  ~NodeMeter();
  void start();
  // From now on what containers of root's have on the disk is looked at as well, or not.
  void look_at_disks(bool do_so) { disks_ = do_so; }
  void look_soon();  // something new runs, or a controller has come who knows nothing yet
  // What the part has used, by its shim's count and by what was seen here.
  WorkUse complete(const WorkId& key, const WorkUse& counted);
  // Why the GPU of that index must not get work until it was reset; "" = it may.
  std::string fault(std::size_t index) const { return index < gpus_.size() ? gpus_[index].fault : std::string(); }

 private:
  struct Gpu {
    std::string fault;
    bool silent = false;  // did not answer last time
    bool told = false;    // that it lost its work, by the last sample
  };
  struct Eyes;  // what looks; used by one errand at a time
  struct Seen;
  void tick();
  void look();
  Duration devices_every() const;
  void take(const Seen& seen);
  void take_gpus(const Seen& seen);
  bool take_fault(const GpuSample& sample);
  void keep_lines();

  EventLoop& loop_;
  const Clock& clock_;
  const AgentFile& settings_;
  Asks asks_;
  UseBook book_;
  std::shared_ptr<Eyes> eyes_;
  std::vector<Gpu> gpus_;
  Instant work_due_, devices_due_, gpus_seen_, begun_;
  bool disks_ = false;
  bool gpus_asked_ = false;  // by the errand that is out
  Errand errand_;
};

// Why nothing that computes on the GPU goes on; "" = it does. Source: NVIDIA's Xid catalogue.
std::string gpu_loss(const GpuSample& sample);

}  // namespace lockstep
