// A disk that lies like a real one: what was written but not synced exists only in memory, and is gone, wholly or in
// parts, when the power fails. SQLite runs on it unchanged, so tests can pull the plug at any operation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/rng.h"

struct sqlite3_vfs;

namespace lockstep {

class LossyDisk {
 public:
  // Registers an SQLite VFS of this name for the life of the object. Files hold what survives; SQLite's own VFS keeps
  // them. One thread only.
  explicit LossyDisk(std::string name);
  ~LossyDisk();
  LossyDisk(const LossyDisk&) = delete;
  const std::string& name() const { return name_; }

  // The power fails in the middle of the n-th write, truncation or sync from now. Until power_on() everything fails.
  void lose_power_after(std::uint64_t operations) { fuse_ = operations; }
  // At once. Of what was not synced, each 512-byte sector survives with this probability.
  void lose_power(double survival = 0);
  void set_survival(double probability, std::uint64_t seed);
  void power_on() { dead_ = false; }
  bool dead() const { return dead_; }

  std::uint64_t syncs() const { return syncs_; }
  std::uint64_t operations() const { return operations_; }
  std::uint64_t unsynced_bytes() const;

  // Writes that make files grow beyond this many bytes more fail with SQLITE_FULL. Negative: no bound.
  void set_room(std::int64_t bytes) { room_ = bytes; }
  // The n-th sync from now fails with an I/O error and syncs nothing; 0 = none.
  void fail_sync_after(std::uint64_t syncs) { fail_sync_ = syncs; }

 private:
  friend struct LossyFile;
  struct FileState;
  struct Vfs;
  bool step();  // counts an operation; false when the power is gone

  std::string name_;
  std::unique_ptr<Vfs> vfs_;
  std::map<std::string, std::shared_ptr<FileState>> files_;
  Rng rng_{1};
  double survival_ = 0;
  std::uint64_t fuse_ = 0, syncs_ = 0, operations_ = 0, fail_sync_ = 0;
  std::int64_t room_ = -1;
  bool dead_ = false;
};

}  // namespace lockstep
