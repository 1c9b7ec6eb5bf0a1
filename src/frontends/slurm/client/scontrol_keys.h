// The keys of scontrol's "update" by their beginnings, as Slurm takes them: "timel=5", "reas=fan". What begins several
// is refused, and the answer names them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

enum class ScontrolEntity : unsigned char { kJob, kNode, kPartition, kReservation };

// The whole key; a word that begins none is left as it is. One that begins another too is the shorter one. A '+' or '-'
// behind it stays.
Result<std::string> whole_key(ScontrolEntity entity, std::string_view key);
Result<void> complete_keys(ScontrolEntity entity, std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace lockstep::slurm
