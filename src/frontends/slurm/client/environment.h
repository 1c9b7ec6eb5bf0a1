// The environment a job or step starts with: what --export lets through of the client's own.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

using Variables = std::vector<std::pair<std::string, std::string>>;

// export_text as --export takes it: "ALL" or "" = everything, "NONE" = only SLURM_* and what a login needs, a list of
// names and NAME=value; "ALL,NAME=value" adds. For a new job the variables that describe the job one happens to be in
// are left out: they would tell the new one's srun a wrong shape.
Result<Variables> exported(const Variables& own, std::string_view export_text, bool new_job);

// NAME=value lines of --export-file, each ended by NUL.
Result<Variables> parse_variables(std::string_view nul_separated);

std::string nul_separated(const Variables& variables);
Variables own_variables();  // of this process
const std::string* value_of(const Variables& variables, std::string_view name);
void put(Variables& variables, std::string_view name, std::string_view value);

class OptionSet;
// --tmpfs, as a new job says it to its nodes (model/own_tmp.h).
Result<void> put_own_tmp(const OptionSet& options, Variables& variables);

}  // namespace lockstep::slurm
