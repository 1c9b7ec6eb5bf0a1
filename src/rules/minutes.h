// Limits of minutes that jobs use up while they run: GrpTRESMins, GrpWall and MaxTRESMins of QOS, associations and
// accounts. As in Slurm, whoever still runs when nothing is left is timed out (acct_policy_job_time_out); not so where
// the policy is "safe", for then nothing starts that could use up too much.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/accounting.h"
#include "rules/usage.h"

namespace lockstep {

bool bounds_minutes(const Limits& limits);

struct MinuteUse {
  RunningUse use;
  const Partition* partition = nullptr;  // null: it is gone
  bool may_end = false;                  // else it only spends: it is on its way in or out
  bool is_paused = false;                // spends nothing
  Instant since;                         // its own minutes are counted from here on
};

// The next of them that will be used up by what runs, as far as the records tell. Past use fades, so some never will.
struct UsedUp {
  Instant at = kNever;             // not later than now: some are already
  std::vector<std::size_t> jobs;   // of `running`, whose minutes are used up then; in order
  std::vector<std::string> words;  // for each: "GrpTRESMins of account physics: 10 minutes of gres/gpu"
};
UsedUp next_used_up(const Directory& directory, std::span<const MinuteUse> running, Instant now, Instant floor);

}  // namespace lockstep
