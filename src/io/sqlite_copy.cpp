#include "io/sqlite_copy.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/text.h"
#include "io/descriptor.h"

namespace lockstep {

namespace {

constexpr int kStepPages = 64;                 // of 4 KiB: 256 KiB
constexpr std::int64_t kSyncEvery = 16 << 20;  // so that no commit of the cluster waits for a gigabyte of ours
constexpr int kPatienceMs = 5'000;             // for a lock that the writer holds for a moment

// SQLite's name of a file that nobody changes: it makes no -shm beside it and takes no lock.
std::string unchanging(const std::string& path) {
  std::string name = "file:";
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%')
      name += format("%{:02x}", static_cast<unsigned char>(c));
    else
      name += c;
  }
  return name + "?immutable=1";
}

Result<void> sync_file(int fd, const std::string& path) {
  if (::fdatasync(fd) == 0)
    return {};
  if (errno == ENOSPC || errno == EDQUOT)
    return Error{Errc::kExhausted, format("{}: the disk is full", path), {}};
  return os_error("cannot write " + path);
}

// What ends with the scope.
struct Backup {
  sqlite3_backup* handle = nullptr;
  ~Backup() { sqlite3_backup_finish(handle); }
};

}  // namespace

Result<SqliteMoment> SqliteMoment::take(const std::string& path) {
  SqliteMoment moment(TRY(Sqlite::open_existing(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW)));
  Sqlite& db = moment.db_;
  // The last one to close a database copies its write-ahead log back and removes it. That is its owner's to do.
  if (const int code = sqlite3_db_config(db.native(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); code != SQLITE_OK)
    return db.error(code, "cannot configure");
  sqlite3_busy_timeout(db.native(), kPatienceMs);
  TRY(db.run("BEGIN"));
  TRY(db.number("SELECT count(*) FROM sqlite_master"));  // a transaction begins to read with its first read
  return moment;
}

Result<std::int64_t> SqliteMoment::bytes() {
  const std::int64_t pages = TRY(db_.number("PRAGMA page_count"));
  return pages * TRY(db_.number("PRAGMA page_size"));
}

Result<void> SqliteMoment::copy_to(const std::string& path, const Step& step) {
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0)
    return os_error("cannot make " + path);
  const std::int64_t page_bytes = TRY(db_.number("PRAGMA page_size"));
  Sqlite copy = TRY(Sqlite::open_existing(path, SQLITE_OPEN_READWRITE));
  TRY(copy.run("PRAGMA journal_mode=OFF"));  // a copy that is not whole is thrown away
  TRY(copy.run("PRAGMA synchronous=OFF"));   // it is synced here
  Backup backup{sqlite3_backup_init(copy.native(), "main", db_.native(), "main")};
  if (!backup.handle)
    return copy.error(sqlite3_errcode(copy.native()), "cannot begin a copy");
  std::int64_t synced = 0;
  for (int code = SQLITE_OK; code != SQLITE_DONE;) {
    code = sqlite3_backup_step(backup.handle, kStepPages);
    if (code != SQLITE_OK && code != SQLITE_DONE)
      return copy.error(code, "cannot copy");
    const std::int64_t done =
        page_bytes * (sqlite3_backup_pagecount(backup.handle) - sqlite3_backup_remaining(backup.handle));
    if (done - synced >= kSyncEvery) {
      TRY(sync_file(file.get(), path));
      synced = done;
    }
    TRY(step(done));
  }
  if (const int code = sqlite3_backup_finish(std::exchange(backup.handle, nullptr)); code != SQLITE_OK)
    return copy.error(code, "cannot end the copy");
  return sync_file(file.get(), path);
}

Result<void> check_sqlite(const std::string& path) {
  Sqlite db = TRY(Sqlite::open_existing(unchanging(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
  const auto said = db.text("PRAGMA quick_check(1)");
  if (said.ok() && *said == "ok")
    return {};
  return Error{
      Errc::kCorrupt, format("{} is damaged: {}", path, one_line(said.ok() ? *said : said.error().message)), {}};
}

}  // namespace lockstep
