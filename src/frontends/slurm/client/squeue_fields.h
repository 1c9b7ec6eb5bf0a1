// squeue's fields and its sort letters.
#pragma once

#include "frontends/slurm/client/table.h"

namespace lockstep::slurm {

std::span<const FieldDef> squeue_job_fields();
std::span<const FieldDef> squeue_step_fields();

// "P,t,-p". Columns that only sorting needs are added to what is asked.
Result<std::vector<SortKey>> squeue_sort_keys(std::string_view text, std::span<const FieldDef> fields, TableAsk& ask);

}  // namespace lockstep::slurm
