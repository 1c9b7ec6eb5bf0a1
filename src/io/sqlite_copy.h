// A database as it is at one moment, while another process goes on writing it: SQLite's readers see one snapshot of a
// write-ahead log and hold no writer up. Used for backups.
#pragma once

#include <functional>
#include <string>

#include "io/sqlite.h"

namespace lockstep {

class SqliteMoment {
 public:
  // Pins what the file holds now, as long as this lives. Nothing of it is changed: where nobody else has it open, what
  // is left of its write-ahead log stays. No symbolic link is followed.
  static Result<SqliteMoment> take(const std::string& path);

  Sqlite& db() { return db_; }
  Result<std::int64_t> bytes();  // that a copy takes

  // Told after each step how much of the copy is done. It may wait, which bounds how much of the disk a copy takes; an
  // error from it ends the copy.
  using Step = std::function<Result<void>(std::int64_t bytes)>;
  // Makes a new file, which is on disk when this returns.
  Result<void> copy_to(const std::string& path, const Step& step);

 private:
  explicit SqliteMoment(Sqlite db) : db_(std::move(db)) {}
  Sqlite db_;
};

// Looks through a file that nobody writes, and leaves nothing beside it. kCorrupt where SQLite finds damage.
Result<void> check_sqlite(const std::string& path);

}  // namespace lockstep
