#include "io/lossy_vfs.h"

#include <sqlite3.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace lockstep {

namespace {
constexpr std::size_t kSector = 512;
}

// What the running system sees of a file, and which parts of it the disk does not have yet.
struct LossyDisk::FileState {
  std::string path;
  std::string content;
  std::vector<std::pair<std::size_t, std::size_t>> dirty;  // offset, length
  bool resized = false;
  bool lost = false;  // the power failed since: handles on it are dead

  std::uint64_t unsynced() const {
    std::uint64_t n = resized ? 1 : 0;
    for (const auto& [offset, length] : dirty) n += length;
    return n;
  }

  // Moves a part of the content to the real file. Sectors beyond a later truncation are skipped.
  void flush(FILE* file, std::size_t offset, std::size_t length) const {
    if (offset >= content.size())
      return;
    length = std::min(length, content.size() - offset);
    CHECK(std::fseek(file, static_cast<long>(offset), SEEK_SET) == 0);
    CHECK(std::fwrite(content.data() + offset, 1, length, file) == length);
  }
};

struct LossyDisk::Vfs {
  sqlite3_vfs vfs{};
  sqlite3_vfs* real = nullptr;
};

// SQLite's handle; the real file behind it serves locks, shared memory and everything that is not content.
struct LossyFile {
  sqlite3_file base;
  LossyDisk* disk;
  LossyDisk::FileState* state;
  std::shared_ptr<LossyDisk::FileState>* owner;
  sqlite3_file* real;

  static LossyFile* of(sqlite3_file* file) { return reinterpret_cast<LossyFile*>(file); }
  static bool gone(LossyFile* f) { return f->disk->dead_ || f->state->lost; }

  static int close(sqlite3_file* file) {
    LossyFile* f = of(file);
    delete f->owner;
    return f->real->pMethods != nullptr ? f->real->pMethods->xClose(f->real) : SQLITE_OK;
  }

  static int read(sqlite3_file* file, void* out, int size, sqlite3_int64 at) {
    LossyFile* f = of(file);
    if (gone(f))
      return SQLITE_IOERR_READ;
    const std::string& content = f->state->content;
    const auto offset = std::min<std::size_t>(static_cast<std::size_t>(at), content.size());
    const std::size_t n = std::min<std::size_t>(static_cast<std::size_t>(size), content.size() - offset);
    std::memcpy(out, content.data() + offset, n);
    if (n == static_cast<std::size_t>(size))
      return SQLITE_OK;
    std::memset(static_cast<char*>(out) + n, 0, static_cast<std::size_t>(size) - n);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 at) {
    LossyFile* f = of(file);
    if (gone(f))
      return SQLITE_IOERR_WRITE;
    std::string& content = f->state->content;
    const std::size_t offset = static_cast<std::size_t>(at), end = offset + static_cast<std::size_t>(size);
    if (end > content.size()) {
      const auto growth = static_cast<std::int64_t>(end - content.size());
      if (f->disk->room_ >= 0) {
        if (growth > f->disk->room_)
          return SQLITE_FULL;
        f->disk->room_ -= growth;
      }
      content.resize(end, '\0');
      f->state->resized = true;
    }
    std::memcpy(content.data() + offset, data, static_cast<std::size_t>(size));
    f->state->dirty.emplace_back(offset, static_cast<std::size_t>(size));
    return f->disk->step() ? SQLITE_OK : SQLITE_IOERR_WRITE;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    LossyFile* f = of(file);
    if (gone(f))
      return SQLITE_IOERR_TRUNCATE;
    f->state->content.resize(static_cast<std::size_t>(size), '\0');
    f->state->resized = true;
    return f->disk->step() ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
  }

  static int sync(sqlite3_file* file, int) {
    LossyFile* f = of(file);
    if (gone(f) || !f->disk->step())  // the power failed while it ran: nothing is promised
      return SQLITE_IOERR_FSYNC;
    if (f->disk->fail_sync_ > 0 && --f->disk->fail_sync_ == 0)
      return SQLITE_IOERR_FSYNC;
    ++f->disk->syncs_;
    LossyDisk::FileState& state = *f->state;
    FILE* disk_file = std::fopen(state.path.c_str(), "r+b");
    if (disk_file == nullptr)
      return SQLITE_IOERR_FSYNC;
    for (const auto& [offset, length] : state.dirty) state.flush(disk_file, offset, length);
    std::fclose(disk_file);
    state.dirty.clear();
    if (state.resized)
      f->real->pMethods->xTruncate(f->real, static_cast<sqlite3_int64>(state.content.size()));
    state.resized = false;
    return SQLITE_OK;
  }

  static int size(sqlite3_file* file, sqlite3_int64* out) {
    LossyFile* f = of(file);
    if (gone(f))
      return SQLITE_IOERR_FSTAT;
    *out = static_cast<sqlite3_int64>(f->state->content.size());
    return SQLITE_OK;
  }

  static int lock(sqlite3_file* file, int level) { return of(file)->real->pMethods->xLock(of(file)->real, level); }
  static int unlock(sqlite3_file* file, int level) { return of(file)->real->pMethods->xUnlock(of(file)->real, level); }
  static int reserved(sqlite3_file* file, int* out) {
    return of(file)->real->pMethods->xCheckReservedLock(of(file)->real, out);
  }
  static int control(sqlite3_file* file, int what, void* argument) {
    if (what == SQLITE_FCNTL_SIZE_HINT || what == SQLITE_FCNTL_CHUNK_SIZE)
      return SQLITE_NOTFOUND;  // the real file must not grow behind our back
    return of(file)->real->pMethods->xFileControl(of(file)->real, what, argument);
  }
  static int sector(sqlite3_file* file) { return of(file)->real->pMethods->xSectorSize(of(file)->real); }
  static int character(sqlite3_file* file) { return of(file)->real->pMethods->xDeviceCharacteristics(of(file)->real); }
  static int shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
    return of(file)->real->pMethods->xShmMap(of(file)->real, page, size, extend, out);
  }
  static int shm_lock(sqlite3_file* file, int offset, int n, int flags) {
    return of(file)->real->pMethods->xShmLock(of(file)->real, offset, n, flags);
  }
  static void shm_barrier(sqlite3_file* file) { of(file)->real->pMethods->xShmBarrier(of(file)->real); }
  static int shm_unmap(sqlite3_file* file, int erase) {
    return of(file)->real->pMethods->xShmUnmap(of(file)->real, erase);
  }

  static LossyDisk* disk_of(sqlite3_vfs* vfs) { return static_cast<LossyDisk*>(vfs->pAppData); }
  static sqlite3_vfs* real_of(sqlite3_vfs* vfs) { return disk_of(vfs)->vfs_->real; }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
    static const sqlite3_io_methods kMethods = {2,        close,       read,      write,   truncate, sync,      size,
                                                lock,     unlock,      reserved,  control, sector,   character, shm_map,
                                                shm_lock, shm_barrier, shm_unmap, nullptr, nullptr};
    LossyDisk* disk = disk_of(vfs);
    LossyFile* f = of(file);
    std::memset(f, 0, static_cast<std::size_t>(vfs->szOsFile));
    if (disk->dead_)
      return SQLITE_CANTOPEN;
    constexpr int kDurable = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;
    if ((flags & kDurable) == 0)  // temporary files may do what they like
      return real_of(vfs)->xOpen(real_of(vfs), path, file, flags, out_flags);
    f->real = reinterpret_cast<sqlite3_file*>(f + 1);
    const int code = real_of(vfs)->xOpen(real_of(vfs), path, f->real, flags, out_flags);
    if (code != SQLITE_OK)
      return code;
    auto& state = disk->files_[path];
    if (!state) {
      state = std::make_shared<LossyDisk::FileState>();
      state->path = path;
      sqlite3_int64 bytes = 0;
      f->real->pMethods->xFileSize(f->real, &bytes);
      state->content.resize(static_cast<std::size_t>(bytes));
      if (bytes > 0)
        f->real->pMethods->xRead(f->real, state->content.data(), static_cast<int>(bytes), 0);
    }
    f->disk = disk;
    f->state = state.get();
    f->owner = new std::shared_ptr<LossyDisk::FileState>(state);
    f->base.pMethods = &kMethods;
    return SQLITE_OK;
  }

  static int erase(sqlite3_vfs* vfs, const char* path, int sync_directory) {
    LossyDisk* disk = disk_of(vfs);
    if (disk->dead_)
      return SQLITE_IOERR_DELETE;
    disk->files_.erase(path);
    return real_of(vfs)->xDelete(real_of(vfs), path, sync_directory);
  }
};

LossyDisk::LossyDisk(std::string name) : name_(std::move(name)), vfs_(new Vfs()) {
  vfs_->real = sqlite3_vfs_find(nullptr);
  vfs_->vfs = *vfs_->real;
  vfs_->vfs.pNext = nullptr;
  vfs_->vfs.zName = name_.c_str();
  vfs_->vfs.pAppData = this;
  vfs_->vfs.szOsFile = static_cast<int>(sizeof(LossyFile)) + vfs_->real->szOsFile;
  vfs_->vfs.xOpen = LossyFile::open;
  vfs_->vfs.xDelete = LossyFile::erase;
  // The rest takes the VFS only to find its own data, which SQLite's Unix VFS keeps in pAppData.
  vfs_->vfs.xAccess = [](sqlite3_vfs* vfs, const char* path, int flags, int* out) {
    return LossyFile::real_of(vfs)->xAccess(LossyFile::real_of(vfs), path, flags, out);
  };
  vfs_->vfs.xFullPathname = [](sqlite3_vfs* vfs, const char* path, int size, char* out) {
    return LossyFile::real_of(vfs)->xFullPathname(LossyFile::real_of(vfs), path, size, out);
  };
  CHECK(sqlite3_vfs_register(&vfs_->vfs, 0) == SQLITE_OK);
}

LossyDisk::~LossyDisk() { sqlite3_vfs_unregister(&vfs_->vfs); }

bool LossyDisk::step() {
  ++operations_;
  if (fuse_ == 0 || --fuse_ > 0)
    return true;
  lose_power(survival_);
  return false;
}

void LossyDisk::set_survival(double probability, std::uint64_t seed) {
  survival_ = probability;
  rng_ = Rng(seed);
}

void LossyDisk::lose_power(double survival) {
  dead_ = true;
  fuse_ = 0;
  for (auto& [path, state] : files_) {
    state->lost = true;
    FILE* file = survival > 0 ? std::fopen(path.c_str(), "r+b") : nullptr;
    if (file == nullptr)
      continue;
    for (const auto& [offset, length] : state->dirty)
      for (std::size_t at = offset; at < offset + length;) {
        const std::size_t n = std::min(kSector - at % kSector, offset + length - at);
        if (rng_.chance(survival))
          state->flush(file, at, n);
        at += n;
      }
    std::fclose(file);
  }
  files_.clear();
}

std::uint64_t LossyDisk::unsynced_bytes() const {
  std::uint64_t n = 0;
  for (const auto& [path, state] : files_) n += state->unsynced();
  return n;
}

}  // namespace lockstep
