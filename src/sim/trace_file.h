// Workload traces: .csv (a header line names the columns) and .swf (the Standard Workload Format, blanks between
// fields, ';' begins a remark, https://www.cs.huji.ac.il/labs/parallel/workload/swf.html), plain or gzipped. Rows come
// one at a time with their line number, and whatever is wrong is said as "FILE:LINE: field: what is wrong".
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::sim {

enum class TraceForm : unsigned char { kCsv, kSwf };

class TraceFile {
 public:
  // Reads and unpacks the whole file, at most 2 GiB of it. The form follows the name (.swf or .swf.gz is SWF, all else
  // CSV), gzip is told by its first bytes. Errors: kNotFound, kIo, kExhausted, kInvalid (a CSV without a header line).
  static Result<TraceFile> open(const std::string& path);
  // The same from memory; `name` is what messages call it.
  static Result<TraceFile> from_bytes(std::string name, std::string bytes, TraceForm form);

  // Columns. CSV: the place of a named column; kInvalid when the header lacks it. SWF: fields have numbers, 1 is column
  // 0.
  Result<std::size_t> column(std::string_view name) const;
  bool has_column(std::string_view name) const;

  // The next row; false at the end. Empty lines and remarks are passed over. Errors (kInvalid): a row with more or
  // fewer fields than the header (SWF: fewer than 18), a quote that does not close. kCorrupt: the gzip stream is
  // damaged at this line.
  Result<bool> next();

  // Of the current row.
  std::size_t line() const { return line_; }
  const std::vector<std::string_view>& fields() const { return fields_; }
  std::string_view text(std::size_t column) const;
  // A whole number within the bounds; a fraction of zeros ("12.0") is accepted, as several converters write it.
  Result<std::int64_t> integer(std::size_t column, std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                               std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  Result<double> number(std::size_t column) const;  // finite
  Error wrong(std::size_t column, std::string_view what) const;

  const std::string& name() const { return name_; }
  TraceForm form() const { return form_; }

 private:
  Error wrong_line(std::string_view what, Errc code = Errc::kInvalid) const;
  bool split_row(std::string_view row);  // false: a quote does not close
  std::string_view next_line();

  std::string name_;
  std::string bytes_;   // unpacked
  std::string damage_;  // why unpacking stopped early; empty if it did not
  TraceForm form_ = TraceForm::kCsv;
  std::size_t at_ = 0;    // of bytes_
  std::size_t line_ = 0;  // of the current row, from 1
  std::vector<std::string> header_;
  std::vector<std::string_view> fields_;  // into bytes_
};

}  // namespace lockstep::sim
