// What accounting keeps of a job's run and of a step, taken from the records. Pure.
//
// A run is numbered like the attempt it has, or will have: a job that waits after a requeue is at attempt + 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/history.h"
#include "model/records.h"
#include "model/tables.h"

namespace lockstep {

// A stored row: what readers see, and what the batch step is derived from when they ask.
struct RunRow {
  JobRow row;
  bool has_script = false;
  bool has_allocation = false;  // nodes, cores … are facts, not wishes
  std::string ending;           // the state to come while completing
  std::string first_node;
  std::uint32_t first_cores = 0, first_devices = 0;
  std::int64_t first_memory_mb = 0;
  std::string script_used;  // text_of(WorkUse); "" = not known
};

std::string_view history_state(JobState state);            // "running"
inline constexpr std::string_view kRequeued = "requeued";  // of a run that was ended so that the job starts again

// The wishes and the state of the job as it is now.
RunRow run_row(const Job& job, const Tables& tables);
// Overwrites the wishes by what the allocation holds.
void add_allocation(RunRow& run, const Job& job, const Tables& tables);
JobRow step_row(const Step& step, const Tables& tables);
JobRow batch_row(const RunRow& run);

std::int64_t wall_us(Instant at, const Tables& tables);  // 0 stays 0

}  // namespace lockstep
