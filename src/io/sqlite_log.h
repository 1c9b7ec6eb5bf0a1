// The log and its blobs in one SQLite file: WAL, synchronous=FULL, one transaction for each append, which has ended
// when append() returns. A file that is not ours, or is
// damaged, or lacks what was acknowledged (io/log_tip.h), is refused and left exactly as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ports/log.h"

namespace lockstep {

struct SqliteLogOptions {
  std::string vfs;                        // "" = SQLite's own; tests: a lossy one
  std::int64_t reserve_bytes = 16 << 20;  // 0 = keep none
  std::int64_t checkpoint_pages = 2'000;  // of 4 KiB: the WAL is copied back when it is longer
  bool take_lock = true;                  // refuse a directory that another controller is using
};

class SqliteLog : public Log, public BlobStore {
 public:
  // True from the first commit that met a full disk until the reserve is whole again: admit only what frees space.
  virtual bool low_space() = 0;
  // What was found when it was opened that an administrator should know; whole sentences.
  virtual const std::vector<std::string>& notices() const = 0;
  // The tip was there, and the log has all it names, or goes on without what it lost.
  virtual bool is_known_whole() const = 0;
  virtual std::uint64_t jobs_given() const = 0;  // ids below were given out, as far as the tip tells; 0 = it does not
  // Somebody has seen entries up to this one. If the log ends before, it is treated as if the tip had said so.
  virtual Result<void> seen_elsewhere(std::uint64_t index, const std::string& by) = 0;
  // The same for a log that is whole with its tip: both were put back from a backup, which says that the loss is
  // accepted. Empty entries take the places of the lost ones, and a notice tells.
  virtual Result<void> put_back(std::uint64_t index, const std::string& by) = 0;
};

// The lock and the reserve lie in the directory of path; the tip beside it: log.tip for log.db. Where acknowledged
// entries are lost, the log is refused until somebody makes the file log.accept-loss; then empty ones take their
// places. Without a tip (a copy that was made without it) the log is read whole, taken, and a notice says that nobody
// can tell whether it lost its end; the next entry makes a new tip.
Result<std::unique_ptr<SqliteLog>> open_sqlite_log(const std::string& path, const SqliteLogOptions& options = {});

}  // namespace lockstep
