// What jobs have of GPUs that they share with others, as this node provides it: MIG slices, which come into being with
// an attempt and go with it, and for shares of computing time the job's own control daemon of NVIDIA's Multi-Process
// Service, which a shim owns like any step. Sources: NVIDIA Multi-Instance GPU User Guide, "Device Nodes and
// Capabilities"; Multi-Process Service, "Tools and Interface Reference".
//
// One daemon for each job, because a daemon serves one user: jobs with shares of the same GPU are clients of different
// servers, between which the driver shares time; within a server the percentage and the limit of memory hold.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/logic.h"
#include "io/errand.h"
#include "io/gpus/mig_slices.h"
#include "ports/loop.h"
#include "ports/shims.h"
#include "wire/local_files.h"

namespace lockstep {

class GpuParts {
 public:
  // settings and shims: outlive it.
  GpuParts(EventLoop& loop, const AgentFile& settings, Shims& shims);
  ~GpuParts();
  GpuParts(GpuParts&&) = delete;

  // After a start of the agent: what is there and belongs to an attempt goes on, the rest goes.
  void recover(const std::vector<PartsHeld>& held, const std::vector<Device>& devices,
               const std::vector<WorkId>& survivors);

  // Before the first process of an attempt. An error: this node cannot give it what it was granted.
  Result<void> prepare(const LaunchAttempt& launch, const std::vector<Device>& devices);

  // The order to start something: its variables, its devices, and when it may start, which is when the daemon serves.
  void start(ShimStart start);
  // Something else is to be done to a work: if its start still waits, it waits no longer.
  void start_now(const WorkId& work);

  // Whether the event is of one of our daemons, and of no concern to others.
  bool hear(const ShimEvent& event);

  // Provides for these attempts, and for no others any more.
  void settle(const std::vector<PartsHeld>& held);

 private:
  using Key = std::pair<JobId, AttemptNo>;
  enum class Daemon : unsigned char { kNone, kStarting, kServing, kEnding };
  struct Shared {
    std::vector<DevicePart> parts;
    std::vector<MigSlice> slices;
    Daemon daemon = Daemon::kNone;
    std::string why_no_daemon;  // though the job has asked for one
    bool has_script = false;
    int looks = 0;  // for its socket, so far
    std::vector<ShimStart> waiting;
  };

  Result<void> start_daemon(const Key& key, const LaunchAttempt& launch, Shared& shared);
  void look_at_daemon(const Key& key);
  void without_daemon(const Key& key, const std::string& why);
  void go_on(const Key& key);
  void complete(ShimStart& start, const Shared& shared) const;
  void put_slices(std::vector<std::string>& env, const Shared& shared) const;
  void put_daemon(std::vector<std::string>& env, const Key& key) const;
  void end(const Key& key, Shared& shared);
  void destroy(std::vector<DevicePart> parts);
  void remove_old_folders();
  void remove_folder(const std::string& path);
  void remove_unwanted();
  void read_made();
  void write_made() const;
  std::string made_line(const DevicePart& part) const;
  void destroy_again();
  void destroy_now();
  std::vector<DevicePart> take_undestroyed();
  std::string folder_of(const Key& key) const;
  void later(Duration delay, std::function<void()> task);

  EventLoop& loop_;
  const AgentFile& settings_;
  Shims& shims_;
  std::vector<Device> devices_;
  std::map<Key, Shared> shared_;
  // Slices that we made, as a file keeps them: "GPU-… 1g.10gb 4". Others are an administrator's, and stay.
  std::set<std::string> made_;
  std::vector<DevicePart> undestroyed_;  // a process used them still
  bool destroys_again_ = false;
  Duration destroy_again_in_;
  std::vector<TimerId> timers_;
  std::set<std::string> unwanted_;  // folders
  Errand removal_;
};

}  // namespace lockstep
