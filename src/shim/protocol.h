// What agent and shim say to each other, and what a shim leaves on disk. Frozen: a shim outlives several versions of
// its agent, so nothing here may change its meaning. New fields get new tags, new control words are ignored by old
// shims.
//
// A shim's folder DIR/shims/WORK (model/work_id.h) holds `record`, `io.sock`, the script, and spilled output. `record`
// is a list of records, each one byte kind, four bytes length (big endian) and that many bytes: the launch (written by
// the agent), the pids of the tasks, when it ended, the result. A torn last record does not count. The shim holds a
// lock (flock) on the file for as long as it lives: whoever gets the lock has proof that it is dead.
//
// On the control channel (an inherited socket, or a connection to io.sock that begins with the hello line) both sides
// send lines. Agent: "signal N", "signal-first N" (to the first process of each task), "stop MILLISECONDS
// WHY" (a StopWhy as a number; none from older agents), "notice MILLISECONDS WHY" (the tasks' file for stops says so,
// and nothing else happens), "forget", "pause N", "resume N". Shim: "started", "failed TEXT", "ended
// RANK:CODE:SIGNAL:FLAGS …", "paused N", "resumed N", and before one of them "at MICROSECONDS" (boot clock) when it
// happened; before "ended" also "used NUMBERS" (text_of(WorkUse)). Of a sandbox also "containers JSON"
// (wire/sandbox_text.h), each time something in it is otherwise; "checkpoint" when the work was saved, by the signs
// that the launch names. A connection that begins otherwise carries step I/O frames (wire/frame.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ports/shims.h"

namespace lockstep {

inline constexpr std::string_view kShimHello = "lockstep-shim/1\n";
inline constexpr int kShimRecordFd = 3;   // the shim starts with its record file here
inline constexpr int kShimControlFd = 4;  // and its end of the control socket here
inline constexpr std::string_view kShimRecordFile = "record";
inline constexpr std::string_view kShimSocketFile = "io.sock";
inline constexpr std::string_view kShimScriptFile = "slurm_script";  // the name Slurm's users see in $0
// Tasks find its path in kStopVariable; it is there from the moment when they are told to end.
inline constexpr std::string_view kStopFile = "stop";
inline constexpr const char* kStopVariable = "LOCKSTEP_STOP_FILE";
inline constexpr const char* kSpillVariable = "LOCKSTEP_SPILL_DIR";  // where output that exceeds memory goes; unset:
                                                                     // the shim's folder
inline constexpr std::string_view kLeaseFile =
    "lease";  // DIR/lease: decimal boot-clock µs of the last renewal's sending

// How long whoever was told to stop may take before it is killed, whatever the agent was told.
inline constexpr Duration kKillWaitMax = hours(1);
inline Duration bounded_kill_wait(Duration asked) { return std::clamp(asked, Duration{}, kKillWaitMax); }

enum class ShimRecord : std::uint8_t { kLaunch = 1, kPids = 2, kResult = 3, kEndedAt = 4, kUse = 5, kContainers = 6 };

// A task's first process. started_us on the boot clock tells a reused pid apart.
struct ShimPid {
  std::uint32_t pid = 0;
  std::int64_t started_us = 0;
  friend bool operator==(const ShimPid&, const ShimPid&) = default;
};

std::string encode_launch_record(const ShimStart& start);
std::string encode_pids_record(const std::vector<ShimPid>& pids);
std::string encode_result_record(const std::vector<TaskResult>& results);
std::string encode_ended_record(std::int64_t boot_us);          // goes before the result
std::string encode_use_record(const WorkUse& use);              // does, too
std::string encode_containers_record(const std::string& text);  // does, too; as wire/sandbox_text has it

struct ShimRecords {
  std::optional<ShimStart> launch;  // its key comes from the folder's name
  std::vector<ShimPid> pids;
  std::optional<std::vector<TaskResult>> results;
  std::int64_t ended_us = 0;  // boot clock; 0 = an older shim did not say
  WorkUse use;
  std::string containers;  // of a sandbox, at its end
};
// Reads as far as whole records go. An error: the launch itself is malformed.
Result<ShimRecords> decode_shim_records(std::string_view bytes);

std::string encode_results_text(const std::vector<TaskResult>& results);  // "0:1:0:0 1:0:9:0"
std::optional<std::vector<TaskResult>> decode_results_text(std::string_view text);

}  // namespace lockstep
