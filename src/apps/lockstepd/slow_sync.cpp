#include "apps/lockstepd/slow_sync.h"

#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace lockstep {

namespace {

// SQLite calls through C tables, which leave no place for our own state. The Unix VFS has one table for each way of
// locking (the log's own file has another than its write-ahead log), so each gets a slow copy of its own.
struct SlowTable {
  const sqlite3_io_methods* original = nullptr;
  sqlite3_io_methods slow{};
};
useconds_t delay_us = 0;
sqlite3_vfs* original = nullptr;
std::array<SlowTable, 8> tables;

int slow_sync(sqlite3_file* file, int flags) {
  usleep(delay_us);
  for (const SlowTable& table : tables)
    if (file->pMethods == &table.slow)
      return table.original->xSync(file, flags);
  return SQLITE_IOERR_FSYNC;
}

int slow_open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  const int result = original->xOpen(original, name, file, flags, out_flags);
  if (result != SQLITE_OK || file->pMethods == nullptr)
    return result;
  for (SlowTable& table : tables) {
    if (table.original == nullptr) {
      table.original = file->pMethods;
      table.slow = *file->pMethods;
      table.slow.xSync = slow_sync;
    }
    if (file->pMethods == table.original) {
      file->pMethods = &table.slow;
      return result;
    }
  }
  return SQLITE_CANTOPEN;
}

}  // namespace

std::string slow_sync_vfs() {
  const char* text = std::getenv("LOCKSTEP_SYNC_DELAY_US");
  const auto asked = text ? parse_uint(text) : std::nullopt;
  if (!asked || *asked == 0)
    return {};
  delay_us = static_cast<useconds_t>(std::min<std::uint64_t>(*asked, 1'000'000));
  original = sqlite3_vfs_find(nullptr);
  if (!original)
    return {};
  static sqlite3_vfs slow = *original;
  slow.zName = "lockstep-slow-sync";
  slow.pNext = nullptr;
  slow.xOpen = slow_open;
  return sqlite3_vfs_register(&slow, 0) == SQLITE_OK ? slow.zName : "";
}

}  // namespace lockstep
