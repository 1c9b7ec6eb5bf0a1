// sinfo's fields: letters of -o, names of -O, headers, and what the cluster calls the column.
#pragma once

#include "frontends/slurm/client/table.h"

namespace lockstep::slurm {

std::span<const FieldDef> sinfo_fields();

}  // namespace lockstep::slurm
