// Formats of the listing commands: -o "%.18i %t", -O "jobid:10,name", and writing rows by them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontends/slurm/client/query_call.h"

namespace lockstep::slurm {

enum class FieldKind : unsigned char {
  kText,
  kNumber,
  kTime,   // Unix seconds; 0 = N/A
  kSpan,   // seconds as squeue writes them
  kLimit,  // the same; -1 UNLIMITED, -2 NOT_SET
};

struct FieldDef {
  char letter;            // of -o; 0 = none
  std::string_view name;  // of -O, in lower case
  std::string_view header;
  std::string_view column;  // what the cluster calls it
  FieldKind kind = FieldKind::kText;
};

struct TableColumn {
  const FieldDef* field = nullptr;
  std::uint32_t width = 0;   // 0 = as long as the text
  std::uint32_t cut_at = 0;  // 0 = at the width
  bool right = false;
  bool fit_widest = false;  // '#': as wide as the widest cell, at least width
  std::string suffix;       // literal text behind it
};
struct TableFormat {
  std::string prefix;  // literal text before the first column
  std::vector<TableColumn> columns;
};

inline constexpr std::uint32_t kWidthMax = 8192;  // wider columns are cut to this

// -o. A letter that means nothing is an error; text between fields is printed as it is.
Result<TableFormat> parse_short_format(std::string_view text, std::span<const FieldDef> fields);
// -O. Names in any case, with or without '-' and '_'.
Result<TableFormat> parse_long_format(std::string_view text, std::span<const FieldDef> fields);

// The distinct columns to ask for, and where each column of the format finds its cell.
struct TableAsk {
  std::vector<std::string> names;
  std::vector<std::size_t> cell_of;  // by column of the format
  std::size_t add(std::string_view name);
};
TableAsk ask_for(const TableFormat& format);

struct TableLook {
  bool header = true;
  bool colour = false;       // of states: a terminal is there to show it
  std::string time_pattern;  // $SLURM_TIME_FORMAT
  std::int64_t now = 0;
  std::string_view unlimited = "UNLIMITED", no_limit = "NOT_SET", no_time = "N/A";
};
std::string cell_text(std::string_view raw, FieldKind kind, const TableLook& look);
std::string write_table(const TableFormat& format, const TableAsk& ask, const Rows& rows,
                        std::span<const std::uint32_t> order, const TableLook& look);

// "P,t,-p": letters, each perhaps behind '+' or '-'. The order of the rows by the fields' raw cells; stable.
struct SortKey {
  std::size_t cell = 0;
  bool numeric = false, descending = false;
};
std::vector<std::uint32_t> sorted_rows(const Rows& rows, std::span<const SortKey> keys);

}  // namespace lockstep::slurm
