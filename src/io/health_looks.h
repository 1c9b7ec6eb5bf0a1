// The built-in checks of a node's health that ask the machine: disks, mounts and the memory's own counters of errors.
// They may wait for a disk, so they are made on a thread of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"

namespace lockstep {

// A plain word for what was found: agent/health.h makes verdicts of it.
struct MachineFinding {
  std::string check;
  bool bad = false;  // false: suspect
  std::string evidence;
  bool at_once = true;
};

struct HealthPlaces {
  std::vector<std::string> disks;   // directories; they must be writable and have room
  std::vector<std::string> mounts;  // must be mounted, and answer
  std::uint32_t full_percent = 99;
  std::vector<std::string> off;  // names of checks that are not made
  std::string edac = "/sys/devices/system/edac/mc";
  std::shared_ptr<const std::atomic<bool>> over;  // set: nobody waits for the findings any more
  std::string
      socket;  // of this node: by it, in their environment, processes of its jobs are known; "" = not looked for
};

// Counted by the memory controllers since the machine started.
struct MemoryErrors {
  std::uint64_t corrected = 0, uncorrected = 0;
};
MemoryErrors memory_errors(const std::string& edac);

inline constexpr const char* kHealthDisk = "disk";
inline constexpr const char* kHealthMount = "mount";
inline constexpr const char* kHealthMemory = "memory";
inline constexpr const char* kHealthLeftover = "leftover";
// Those that look_at_machine() makes.
std::vector<std::string> machine_checks(const HealthPlaces& places);

// before: of the look before, which is brought up to date; corrected errors in between make the memory suspect. jobs:
// those that are here; a process of another, which is not younger than a look takes, is left over.
std::vector<MachineFinding> look_at_machine(const HealthPlaces& places, MemoryErrors& before,
                                            const std::set<std::uint64_t>& jobs);

}  // namespace lockstep
