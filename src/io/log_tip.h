// LogTip: which entry of the log was acknowledged last, kept outside SQLite. A damaged frame of its write-ahead log
// ends the log there without a word; then the tip names an entry that the log does not have.
//
// It is written after each commit and never synced. So it survives the process; after a power cut it may be older than
// the log, which is harmless, and never newer: the log was synced before.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace lockstep {

class LogTip {
 public:
  struct Tip {
    std::uint64_t index = 0;
    std::int64_t mark = 0;       // over the entry's row
    std::uint64_t next_job = 0;  // LogEntry::next_job
  };
  enum class State : unsigned char { kWhole, kMissing, kDamaged };
  struct Found {
    State state = State::kMissing;
    Tip tip;  // if it is whole
  };

  explicit LogTip(std::string path) : path_(std::move(path)) {}
  ~LogTip();
  LogTip(const LogTip&) = delete;
  const std::string& path() const { return path_; }

  // An error: it cannot be read, and may say that something is lost.
  Result<Found> read() const;
  // Makes the file the first time. A tip that cannot be written stays what it was: older is harmless.
  void write(const Tip& tip);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace lockstep
