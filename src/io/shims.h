// The real Shims: one lockstep-shim process for every step on this node, each in its folder DIR/shims/KEY. The shims do
// not need us: they go on when the agent ends, and recover() finds them again. Protocol: shim/protocol.h.
#pragma once

#include <memory>
#include <string>

#include "io/local/cgroups.h"
#include "ports/loop.h"
#include "ports/shims.h"

namespace lockstep {

// What holds the work of this node apart and to its limits.
struct Isolation {
  std::shared_ptr<Cgroups> groups;  // null: nothing does; shared with who looks at what work uses
  std::uint32_t processes = 0;      // and threads that a job may have at once; 0 = no bound
  bool processors = false;          // the node's cores are processors of this machine by their numbers
};

// dir must exist; best in memory (tmpfs), since every step makes and removes files there. shim_path: the lockstep-shim
// program. spill_dir: on a disk, for output that exceeds memory; "" = dir.
Result<std::unique_ptr<Shims>> make_shims(EventLoop& loop, const std::string& dir, const std::string& shim_path,
                                          const std::string& spill_dir = {}, Isolation isolation = {});

// Whether folders of shims are there, of this boot or an older one.
bool has_shims(const std::string& dir);

// A connection to a live shim for step I/O frames; non-blocking descriptor, owned by the caller. kNotFound when it is
// gone.
Result<int> connect_to_shim(const std::string& dir, const WorkId& key);
bool shim_folder_exists(const std::string& dir, const WorkId& key);  // it was started and is not forgotten

// After a reboot nothing of what the folders tell of can be alive. The lease goes with them.
Result<void> remove_shims_of_older_boots(const std::string& dir);

// What write_lease() wrote last.
Result<Instant> read_lease(const std::string& dir);

// When the last acknowledged renewal was sent, on the boot clock: shims fence themselves by it when no agent does.
Result<void> write_lease(const std::string& dir, Instant renewed);

}  // namespace lockstep
