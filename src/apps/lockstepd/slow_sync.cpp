#include "apps/lockstepd/slow_sync.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace lockstep {

namespace {

// SQLite calls through C tables, which leave no place for our own state: one delay and one original per process.
useconds_t delay_us = 0;
sqlite3_vfs* original = nullptr;
sqlite3_io_methods slow_methods;
const sqlite3_io_methods* original_methods = nullptr;

int slow_sync(sqlite3_file* file, int flags) {
  usleep(delay_us);
  return original_methods->xSync(file, flags);
}

int slow_open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  const int result = original->xOpen(original, name, file, flags, out_flags);
  if (result != SQLITE_OK || file->pMethods == nullptr)
    return result;
  // The Unix VFS gives every file of one locking style the same table; another table is left as it is.
  if (original_methods == nullptr) {
    original_methods = file->pMethods;
    slow_methods = *original_methods;
    slow_methods.xSync = slow_sync;
  }
  if (file->pMethods == original_methods)
    file->pMethods = &slow_methods;
  return result;
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
