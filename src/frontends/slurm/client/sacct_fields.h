// sacct's fields, their widths, and how its tables are written.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/slurm/client/query_call.h"

namespace lockstep::slurm {

enum class SacctKind : unsigned char { kText, kTime, kSpan, kLimit, kLimitMinutes, kMemory };

struct SacctField {
  std::string_view name;    // as the header shows it
  int width;                // negative = left aligned
  std::string_view column;  // what the cluster calls it; "empty" = nothing is measured
  SacctKind kind = SacctKind::kText;
};
std::span<const SacctField> sacct_fields();

struct SacctColumn {
  const SacctField* field = nullptr;
  int width = 0;
};
// "JobID,State%20,elapsed": any case, unique beginnings are enough.
Result<std::vector<SacctColumn>> parse_sacct_format(std::string_view text,
                                                    std::span<const SacctField> fields = sacct_fields());

struct SacctLook {
  bool header = true;
  bool parsable = false;  // no widths, the delimiter between
  bool trailing = false;  // and one more at the end of each line (-p)
  std::string delimiter = "|";
  std::string time_pattern;
  std::int64_t now = 0;
  char unit = 0;  // --units: K, M, G, T for memory
};
// What -n, -p and -P say, for commands whose wish has a look.
template <class Wish>
void look_without_header(Wish& wish) {
  wish.look.header = false;
}
template <class Wish>
void look_parsable(Wish& wish) {
  wish.look.parsable = wish.look.trailing = true;
}
template <class Wish>
void look_parsable2(Wish& wish) {
  wish.look.parsable = true;
  wish.look.trailing = false;
}

// What the cluster is asked for: each of its columns once, in the order they first come.
struct SacctAsk {
  std::vector<std::string> names;
  std::vector<std::size_t> cell_of;  // by column of the table
};
SacctAsk sacct_ask(const std::vector<SacctColumn>& columns);

// cell_of: where each column finds its cell; empty: there is one for each, in their order.
std::string write_sacct(const std::vector<SacctColumn>& columns, const Rows& rows, const SacctLook& look,
                        std::span<const std::size_t> cell_of = {});

}  // namespace lockstep::slurm
