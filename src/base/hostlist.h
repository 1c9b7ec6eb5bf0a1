// Host lists in Slurm's notation: "n[1-3,7],gpu01" <-> names. Scripts parse the compressed form by hand, so it must
// match Slurm's text exactly (widths preserved, one bracket group per prefix run).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kHostlistMax = 1'000'000;  // names; a longer list is refused, not expanded

// Names in one list of a request or a filter: to look at them takes less than a turn of a loop.
inline constexpr std::size_t kHostsAskedMax = 20'000;

// In the order written, duplicates kept. Errors name the column; more names than `most` are refused unexpanded.
Result<std::vector<std::string>> expand_hostlist(std::string_view text, std::size_t most = kHostlistMax);

// Consecutive names that share prefix, width and suffix become ranges: {n1,n2,n3,n7} -> "n[1-3,7]". Order is kept;
// sort first (sort_hosts) for Slurm's SLURM_JOB_NODELIST form.
std::string compress_hostlist(const std::vector<std::string>& names);

// Whether a node may bear the name: letters, digits, "-", "_" and single "." inside, at most 59, so that a path or a
// certificate with it says nothing else.
bool is_node_name(std::string_view name);
bool is_word_for_nodes(std::string_view name);  // "ALL", "default": where hosts are listed no node is meant

// By prefix, then by number, then by width: n2 before n10.
void sort_hosts(std::vector<std::string>& names);
bool host_less(std::string_view a, std::string_view b);

}  // namespace lockstep
