// Values of Slurm options, as people write them. Each parser takes the whole text and is strict; the caller adds which
// option it was and where it stood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/command.h"
#include "model/spec.h"

namespace lockstep::slurm {

// "30" (minutes), "M:S", "H:M:S", "D-H", "D-H:M", "D-H:M:S"; "0", "infinite" and "unlimited" = kForever.
std::optional<Duration> parse_time_limit(std::string_view text);
// A job's or step's limit as Slurm keeps it: whole minutes, rounded up. Exact where $LOCKSTEP_LIMIT_SECONDS is set, for
// tests that wait until one strikes.
Duration whole_minutes(Duration limit);

// "300" (MB), "4G", "4GB", "100k" … in MB, rounded up.
std::optional<std::int64_t> parse_memory_mb(std::string_view text);

// "4", "2-8", "1k".
std::optional<CountRange> parse_node_range(std::string_view text);

bool is_share_of_gpu(std::string_view kind);  // "mps", "shard"
// "gpu", "gpu:4", "gpu:h100", "gpu:h100:8", "gres/gpu:2", several with commas; "none" gives an empty list.
Result<std::vector<DeviceAsk>> parse_gres(std::string_view text);
// "4", "h100", "h100:4", several with commas.
Result<std::vector<DeviceAsk>> parse_gpus(std::string_view text);

// "[R|B:]SIG[@seconds]"; 60 s when not given.
std::optional<SignalAhead> parse_signal_ahead(std::string_view text);
// "9", "KILL", "SIGKILL", any case; 1–64.
std::optional<int> parse_signal(std::string_view text);
// "cluster", "off", "cancel", "requeue", "suspend", "checkpoint"; any case. "gang" alone is taken for off.
std::optional<PreemptMode> parse_preempt_mode(std::string_view text);
std::string signal_text(int signal);  // "Killed", "Terminated", "Segmentation fault"

struct Dependencies {
  std::vector<Dependency> all;
  bool any = false;  // joined by '?'
};
// "afterok:12:13,afterany:14", "after:12+30", "singleton", "afterany:1?afterok:2".
Result<Dependencies> parse_dependencies(std::string_view text);

// "0-15%4", "1,3,5-9:2".
Result<ArrayAsk> parse_array(std::string_view text);

// A point in the calendar; now and the local time zone are the reference. "now+1hour", "16:00", "tomorrow", "1/20/30",
// "2030-01-20T12:34".
std::optional<WallTime> parse_wall_time(std::string_view text, WallTime now);

std::optional<std::uint32_t> parse_count(std::string_view text);  // 0 … 2^31-1, whole text
std::optional<bool> parse_yes_no(std::string_view text);

}  // namespace lockstep::slurm
