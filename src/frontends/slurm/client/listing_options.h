// What -i, -o and -O say to squeue and sinfo, whose wishes have these fields.
#pragma once

#include "frontends/slurm/client/command_options.h"

namespace lockstep::slurm {

template <class Wish>
Result<void> set_interval(Wish& wish, const std::string& text) {
  wish.every_s = TRY(interval_of(text));
  return {};
}

// Of the two ways to name columns the later one counts.
template <class Wish>
Result<void> set_short_format(Wish& wish, const std::string& text) {
  wish.short_format = text;
  wish.long_format.clear();
  return {};
}
template <class Wish>
Result<void> set_long_format(Wish& wish, const std::string& text) {
  wish.long_format = text;
  wish.short_format.clear();
  return {};
}

// Above the table of a cluster that -M names.
inline std::string cluster_line(const std::string& name, bool no_header) {
  return name.empty() || no_header ? std::string() : format("CLUSTER: {}\n", name);
}

}  // namespace lockstep::slurm
