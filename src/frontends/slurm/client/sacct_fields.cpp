#include "frontends/slurm/client/sacct_fields.h"

#include <algorithm>
#include <charconv>

#include "base/items.h"
#include "base/text.h"
#include "frontends/slurm/client/query_times.h"
#include "frontends/slurm/client/text_width.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

namespace {

using enum SacctKind;

constexpr SacctField kFields[] = {
    {"Account", 10, "account"},
    {"AdminComment", 19, "empty"},
    {"AllocCPUS", 10, "ncpus"},
    {"AllocNodes", 10, "nnodes"},
    {"AllocTRES", 10, "alloctres"},
    {"AssocID", 7, "empty"},
    {"AveCPU", 10, "avecpu"},
    {"AveDiskRead", 14, "avediskread", kMemory},
    {"AveDiskWrite", 14, "avediskwrite", kMemory},
    {"AvePages", 10, "empty"},
    {"AveRSS", 10, "averss", kMemory},
    {"AveVMSize", 10, "empty"},
    {"BlockID", 16, "empty"},
    {"Cluster", 10, "cluster"},
    {"Comment", 14, "comment"},
    {"Constraints", 19, "empty"},
    {"ConsumedEnergy", 14, "empty"},
    {"CPUTime", 10, "cputime", kSpan},
    {"CPUTimeRAW", 10, "cputime"},
    {"DBIndex", 10, "jobidraw"},
    {"DerivedExitCode", 15, "derivedexitcode"},
    {"Elapsed", 10, "elapsed", kSpan},
    {"ElapsedRaw", 10, "elapsed"},
    {"Eligible", 19, "eligible", kTime},
    {"End", 19, "end", kTime},
    {"ExitCode", 8, "exitcode"},
    {"Flags", 20, "empty"},
    {"GID", 6, "gid"},
    {"Group", 9, "gid"},
    {"JobID", -12, "jobid"},
    {"JobIDRaw", -12, "jobidraw"},
    {"JobName", 10, "jobname"},
    {"Layout", 9, "empty"},
    {"MaxDiskRead", 12, "empty"},
    {"MaxDiskWrite", 12, "empty"},
    {"MaxPages", 8, "empty"},
    {"MaxRSS", 10, "maxrss", kMemory},
    {"MaxRSSNode", 10, "maxrssnode"},
    {"MaxRSSTask", 10, "maxrsstask"},
    {"MaxVMSize", 10, "empty"},
    {"MCSLabel", 10, "empty"},
    {"MinCPU", 10, "mincpu"},
    {"MinCPUNode", 10, "mincpunode"},
    {"MinCPUTask", 10, "mincputask"},
    {"NCPUS", 10, "ncpus"},
    {"NNodes", 8, "nnodes"},
    {"NodeList", 15, "nodelist"},
    {"NTasks", 8, "ntasks"},
    {"Partition", 10, "partition"},
    {"Planned", 10, "planned", kSpan},
    {"PlannedCPU", 10, "empty"},
    {"Priority", 10, "priority"},
    {"QOS", 10, "qos"},
    {"QOSRAW", 6, "empty"},
    {"Reason", 22, "reason"},
    {"ReqCPUS", 8, "ncpus"},
    {"ReqMem", 10, "reqmem", kMemory},
    {"ReqNodes", 8, "nnodes"},
    {"ReqTRES", 10, "reqtres"},
    {"Reservation", 20, "empty"},
    {"Reserved", 10, "planned", kSpan},
    {"Restarts", 8, "restarts"},
    {"Start", 19, "start", kTime},
    {"State", 10, "state"},
    {"Submit", 19, "submit", kTime},
    {"SubmitLine", 20, "submitline"},
    {"Suspended", 10, "suspended", kSpan},
    {"SystemComment", 20, "empty"},
    {"SystemCPU", 10, "systemcpu"},
    {"Timelimit", 10, "timelimit", kLimit},
    {"TimelimitRaw", 12, "timelimit", kLimitMinutes},
    {"TotalCPU", 10, "totalcpu"},
    {"TRESUsageInAve", 14, "tresusageinave"},
    {"TRESUsageInMax", 14, "tresusageinmax"},
    {"TRESUsageInTot", 14, "tresusageintot"},
    {"TRESUsageOutAve", 15, "tresusageoutave"},
    {"TRESUsageOutTot", 15, "tresusageouttot"},
    {"UID", 6, "uid"},
    {"User", 9, "user"},
    {"UserCPU", 10, "usercpu"},
    {"WCKey", 10, "wckey"},
    {"WorkDir", 20, "workdir"},
};

std::int64_t to_number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "4000M" in the unit asked for.
std::string in_unit(std::string_view text, char unit) {
  constexpr std::string_view kUnits = "KMGTP";
  if (text.empty() || unit == 0)
    return std::string(text);
  const auto have = kUnits.find(text.back()), want = kUnits.find(unit);
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size() - 1, value);
  if (have == std::string_view::npos || want == std::string_view::npos || read.ec != std::errc{})
    return std::string(text);
  for (auto at = have; at < want; ++at) value /= 1024;
  for (auto at = want; at < have; ++at) value *= 1024;
  const bool whole = value == static_cast<double>(static_cast<std::int64_t>(value));
  return whole ? format("{}{}", static_cast<std::int64_t>(value), unit) : format("{:.2f}{}", value, unit);
}

std::string shown(std::string_view raw, const SacctField& field, const SacctLook& look) {
  switch (field.kind) {
    case kText: break;
    case kTime: return time_text(to_number(raw), "Unknown", look.time_pattern, look.now);
    case kSpan: return padded_span_text(std::max<std::int64_t>(0, to_number(raw)));
    case kLimit:
    case kLimitMinutes: {
      if (raw.empty())
        return {};
      const std::int64_t seconds = to_number(raw);
      if (seconds < 0)
        return seconds == -1 ? "UNLIMITED" : "Partition_Limit";
      return field.kind == kLimit ? padded_span_text(seconds) : std::to_string(seconds / 60);
    }
    case kMemory: return in_unit(raw, look.unit);
  }
  return std::string(raw);
}

void append(std::string& out, std::string_view text, int width) {
  const std::size_t size = static_cast<std::size_t>(width < 0 ? -width : width);
  std::string cut(text);
  if (width_of(text) > size) {
    cut = cut_to_width(text, size > 0 ? size - 1 : 0);
    if (size > 0)
      cut += '+';
  }
  const std::size_t pad = size - width_of(cut);
  if (width > 0)
    out.append(pad, ' ');
  out += cut;
  if (width < 0)
    out.append(pad, ' ');
  out += ' ';
}

}  // namespace

std::span<const SacctField> sacct_fields() { return kFields; }

Result<std::vector<SacctColumn>> parse_sacct_format(std::string_view text, std::span<const SacctField> fields) {
  std::vector<SacctColumn> columns;
  for (const std::string& part : items_of(text)) {
    const std::string_view word = trim(part);
    if (word.empty())
      continue;
    const auto percent = word.find('%');
    const std::string name = lower(word.substr(0, percent));
    if (name == "all") {
      for (const SacctField& field : fields) columns.push_back({&field, field.width});
      continue;
    }
    const SacctField* found = nullptr;
    for (const SacctField& field : fields) {
      const std::string known = lower(field.name);
      if (known == name) {
        found = &field;
        break;
      }
      if (!found && known.starts_with(name))
        found = &field;
    }
    if (!found || name.empty())
      return invalid(format("Invalid field requested: \"{}\"", word.substr(0, percent)), "format");
    SacctColumn column{found, found->width};
    if (percent != std::string_view::npos) {
      const auto width = parse_int(word.substr(percent + 1));
      if (!width || *width < -10000 || *width > 10000)
        return invalid(format("Invalid width: \"{}\"", word), "format");
      column.width = static_cast<int>(*width);
    }
    columns.push_back(column);
  }
  if (columns.empty())
    return invalid("No field requested", "format");
  return columns;
}

SacctAsk sacct_ask(const std::vector<SacctColumn>& columns) {
  SacctAsk out;
  for (const SacctColumn& column : columns) {
    const auto at = std::find(out.names.begin(), out.names.end(), column.field->column);
    out.cell_of.push_back(static_cast<std::size_t>(at - out.names.begin()));
    if (at == out.names.end())
      out.names.emplace_back(column.field->column);
  }
  return out;
}

std::string write_sacct(const std::vector<SacctColumn>& columns, const Rows& rows, const SacctLook& look,
                        std::span<const std::size_t> cell_of) {
  std::string out;
  const auto line = [&](auto&& text_of) {
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (!look.parsable) {
        append(out, text_of(c), columns[c].width);
        continue;
      }
      out += text_of(c);
      if (look.trailing || c + 1 < columns.size())
        out += look.delimiter;
    }
    out += '\n';
  };
  if (look.header)
    line([&](std::size_t c) { return std::string(columns[c].field->name); });
  if (look.header && !look.parsable)
    line([&](std::size_t c) { return std::string(static_cast<std::size_t>(std::abs(columns[c].width)), '-'); });
  for (std::size_t row = 0; row < rows.size(); ++row)
    line([&](std::size_t c) {
      const std::string_view cell = rows.cell(row, cell_of.empty() ? c : cell_of[c]);
      return lockstep::shown(shown(cell, *columns[c].field, look));
    });
  return out;
}

}  // namespace lockstep::slurm
