#include "io/older_log_rows.h"

#include <algorithm>

#include "model/command.h"
#include "model/job.h"

namespace lockstep {

namespace {

struct Run {
  std::int64_t number = 0;
  bool open = false, held = false;  // held: it had an allocation
};

class Settler {
 public:
  Settler(const Sqlite& db, const Tables& tables, OlderLog how) : db_(db), tables_(tables), how_(how) {}

  Result<void> prepare() {
    runs_ = TRY(SqliteStatement::prepare(
        db_, "SELECT run, ended_us = 0, has_allocation FROM jobs WHERE job = ?1 ORDER BY run"));
    // How long it went on, nobody knows.
    end_run_ = TRY(SqliteStatement::prepare(
        db_,
        "UPDATE jobs SET state = iif(started_us > 0, 'node_fail', 'cancelled'), reason = 'LostFromLog', ending = '', "
        "ended_us = max(started_us, submitted_us, 1) WHERE job = ?1 AND run = ?2"));
    open_steps_ = TRY(SqliteStatement::prepare(db_, "SELECT run, number FROM steps WHERE job = ?1 AND ended_us = 0"));
    end_step_ = TRY(SqliteStatement::prepare(
        db_,
        "UPDATE steps SET state = 'cancelled', ended_us = max(started_us, 1) WHERE job = ?1 AND run = ?2 AND number = "
        "?3"));
    last_step_ =
        TRY(SqliteStatement::prepare(db_, "SELECT ifnull(max(number) + 1, 0) FROM steps WHERE job = ?1 AND run = ?2"));
    return {};
  }

  // What waits of an array stands in the row of the array, which is no run.
  Result<void> settle(const Job& job) {
    if (job.array)
      return {};
    const bool waits = job.state == JobState::kPending, over = is_final(job.state);
    AttemptNo had = 0;
    for (const Run& run : TRY(runs_of(job))) {
      const bool known = !over && run.number == job.attempt + (waits ? 1 : 0) && !(waits && run.held);
      if (run.open && !known && how_ == OlderLog::kFound)
        TRY(end_run_.bind(1, number_of(job)).bind(2, run.number).execute());
      if (run.held || (!run.open && !over))
        had = std::max(had, static_cast<AttemptNo>(run.number));
    }
    if (how_ == OlderLog::kFound)
      TRY(end_steps(job));
    TRY(look_at_steps(job));
    if (had > job.attempt)
      beyond.push_back({job.id, had, 0});
    return {};
  }

  std::vector<AttemptSeen> beyond;

 private:
  static std::int64_t number_of(const Job& job) { return static_cast<std::int64_t>(job.id.value); }

  Result<std::vector<Run>> runs_of(const Job& job) {
    std::vector<Run> runs;
    runs_.bind(1, number_of(job));
    while (TRY(runs_.step())) runs.push_back({runs_.number(0), runs_.number(1) != 0, runs_.number(2) != 0});
    return runs;
  }

  Result<void> end_steps(const Job& job) {
    std::vector<std::pair<std::int64_t, std::int64_t>> unknown;
    open_steps_.bind(1, number_of(job));
    while (TRY(open_steps_.step())) {
      const std::int64_t run = open_steps_.number(0), number = open_steps_.number(1);
      const Step* step = tables_.step(job.id, static_cast<StepNo>(number));
      if (!step || step->attempt != run || step->state == StepState::kEnded)
        unknown.emplace_back(run, number);
    }
    for (const auto& [run, number] : unknown)
      TRY(end_step_.bind(1, number_of(job)).bind(2, run).bind(3, number).execute());
    return {};
  }

  Result<void> look_at_steps(const Job& job) {
    if (!holds_allocation(job.state))
      return {};
    last_step_.bind(1, number_of(job)).bind(2, job.attempt);
    std::int64_t next = 0;
    while (TRY(last_step_.step())) next = last_step_.number(0);
    if (next > job.next_step)
      beyond.push_back({job.id, job.attempt, static_cast<StepNo>(next)});
    return {};
  }

  const Sqlite& db_;
  const Tables& tables_;
  const OlderLog how_;
  SqliteStatement runs_, end_run_, open_steps_, end_step_, last_step_;
};

}  // namespace

Result<std::vector<AttemptSeen>> settle_rows_beyond(const Sqlite& db, const Tables& tables, OlderLog how) {
  Settler settler(db, tables, how);
  TRY(settler.prepare());
  for (const auto& [id, job] : tables.jobs) TRY(settler.settle(*job));
  return std::move(settler.beyond);
}

}  // namespace lockstep
