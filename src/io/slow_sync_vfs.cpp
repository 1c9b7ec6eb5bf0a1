#include "io/slow_sync_vfs.h"

#include <sqlite3.h>

#include <ctime>
#include <map>
#include <mutex>

#include "base/check.h"

namespace lockstep {

namespace {

// SQLite's registry of file systems is global, and so is this.
struct SlowSync {
  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
  timespec delay{};
  std::mutex mutex;  // files are opened on the threads of the log and of the history
  std::map<const sqlite3_io_methods*, sqlite3_io_methods> methods;  // of the real files, with our sync
  int (*sync)(sqlite3_file*, int) = nullptr;                        // the same for every kind of Unix file
};

SlowSync& slow() {
  static SlowSync only;
  return only;
}

int slow_sync(sqlite3_file* file, int flags) {
  nanosleep(&slow().delay, nullptr);
  return slow().sync(file, flags);
}

int slow_open(sqlite3_vfs*, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  SlowSync& self = slow();
  const int code = self.real->xOpen(self.real, path, file, flags, out_flags);
  if (file->pMethods == nullptr)
    return code;
  const std::lock_guard lock(self.mutex);
  auto [it, is_new] = self.methods.try_emplace(file->pMethods, *file->pMethods);
  if (is_new) {
    CHECK(self.sync == nullptr || self.sync == it->second.xSync);
    self.sync = it->second.xSync;
    it->second.xSync = slow_sync;
  }
  file->pMethods = &it->second;
  return code;
}

}  // namespace

std::string register_slow_sync_vfs(Duration delay) {
  SlowSync& self = slow();
  CHECK(self.real == nullptr, "registered once");
  self.real = sqlite3_vfs_find(nullptr);
  self.delay = {.tv_sec = delay.seconds(), .tv_nsec = delay.us % 1'000'000 * 1'000};
  self.vfs = *self.real;  // shares pAppData, so that its other functions work unchanged
  self.vfs.pNext = nullptr;
  self.vfs.zName = "slow-sync";
  self.vfs.xOpen = slow_open;
  CHECK(sqlite3_vfs_register(&self.vfs, 0) == SQLITE_OK);
  return self.vfs.zName;
}

}  // namespace lockstep
