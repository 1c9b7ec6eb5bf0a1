// What accounting shows, and how it is asked for. The store behind it is ports/history.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/command.h"

namespace lockstep {

// One run of a job, or one of its steps, as accounting shows it.
struct JobRow {
  JobId job;
  AttemptNo attempt = 0;
  StepNo step = -100;  // -100 = the job itself
  JobId array_job;
  bool is_element = false;
  std::uint32_t array_index = 0;
  bool ends_array = false;  // the last element of an array of which none waits any more: Slurm gives it the array's id
  std::string name, user, account, partition, qos, state, node_list, work_dir, comment, command, reason, wckey;
  std::uint32_t uid = 0, gid = 0;
  std::int64_t submitted_us = 0, eligible_us = 0, started_us = 0, ended_us = 0;  // wall clock; 0 = not yet
  std::int64_t suspended_us = 0;                                                 // pauses of this run that are over
  std::int64_t paused_us = 0;  // since when it pauses, wall clock; 0 = it does not
  std::int64_t limit_s = 0;    // 0 = partition default, -1 = unlimited
  std::int32_t exit_code = 0, exit_signal = 0, derived_code = 0, derived_signal = 0;
  std::uint32_t nodes = 0, cores = 0, tasks = 0, devices = 0, restarts = 0;
  std::int64_t memory_mb = 0, asked_memory_mb = 0;
  std::uint64_t priority = 0;
  WorkUse use = {};                        // of a step or a script
  std::int64_t cpu_us = 0;                 // of all of the run that has ended
  std::string devices_text, cancelled_by;  // "gpu:h100=8"
};

struct HistoryQuery {
  std::vector<JobTarget> jobs;  // empty = all
  std::vector<std::string> users, accounts, partitions, names, states;
  std::int64_t from_us = 0, to_us = INT64_MAX;  // wall clock; rows that overlap
  bool steps = true;
  bool duplicates = false;  // earlier runs of requeued jobs too
  std::size_t limit = 1'000'000;
  std::size_t words_max = SIZE_MAX;  // bytes of all words together; more is kExhausted, field "reply"
  struct Person {
    std::uint32_t uid = 0;
    std::string name;
  };
  std::optional<Person> commands_of;  // command lines of steps are told of theirs only; nullopt = of everybody's
};

}  // namespace lockstep
