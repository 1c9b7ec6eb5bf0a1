// Dependencies on jobs that are listed no more: accounting knows how they ended. The core knows only what is listed, so
// this is settled before a submission reaches it.
#pragma once

#include <map>
#include <vector>

#include "model/tables.h"
#include "ports/history.h"

namespace lockstep {

inline constexpr std::size_t kPastEndsMost = 64;  // that one request may ask after

// What a dependency is on: a job, a whole array or one element.
struct Prerequisite {
  JobId job;
  std::optional<std::uint32_t> element;
  friend auto operator<=>(const Prerequisite&, const Prerequisite&) = default;
};

enum class PastEnd : unsigned char { kUnknown, kSucceeded, kFailed };
using PastEnds = std::map<Prerequisite, PastEnd>;

// Those the tables do not list.
std::vector<Prerequisite> not_listed(const Tables& tables, const std::vector<Dependency>& dependencies);
// How each ended; of an array whether all of it succeeded.
Result<PastEnds> past_ends(HistoryStore& store, const std::vector<Prerequisite>& jobs);
// What has been met goes, what can never be met is marked. any: one that is met is enough.
void settle_past(std::vector<Dependency>& dependencies, bool any, const PastEnds& ends);

}  // namespace lockstep
