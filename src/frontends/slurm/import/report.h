// What an import says of every setting it came by.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "frontends/slurm/import/conf_keys.h"

namespace lockstep::slurm {

struct ReportEntry {
  std::string file;
  std::size_t line = 0, column = 0;
  std::string key;    // "MaxTime"; of an option "SchedulerParameters: bf_window"
  std::string value;  // as written
  std::string of;     // the first word of its line where it has several: "PartitionName=gpu"
  Verdict verdict = Verdict::kTaken;
  std::string words;
};

struct Report {
  std::vector<ReportEntry> entries;  // file by file, by line
  std::vector<std::string> notes;    // on the whole

  std::size_t count(Verdict verdict) const;
  bool is_whole() const;  // nothing is without an equal, and nothing unknown
};

struct ReportLook {
  bool all = true;  // else only what is without an equal or unknown
  std::size_t width = 100;
};
std::string report_text(const Report& report, const ReportLook& look);
std::string report_json(const Report& report);
std::string report_summary(const Report& report);  // one line, without its end

}  // namespace lockstep::slurm
