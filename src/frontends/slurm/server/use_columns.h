// Columns about what a script or a step has used, by Slurm's names: of sacct when it has ended, of sstat while it runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/tables.h"
#include "model/work_use.h"

namespace lockstep::slurm {

struct UseLine {
  const Tables& tables;
  const WorkUse& use;  // of tasks > 0
  JobId job;
  StepNo step = 0;
  AttemptNo attempt = 0;
  Duration elapsed;
  std::string_view only_node;  // where all of it is on one; else ""
};

struct UseColumn {
  std::string_view name;
  std::string (*text)(const UseLine&);
};
const UseColumn* use_column(std::string_view name);  // null: there is none of that name

std::string cpu_text(Duration cpu);  // "01:02.345", "03:01:02", "2-03:01:02"

}  // namespace lockstep::slurm
