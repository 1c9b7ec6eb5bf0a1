#include "apps/lockstepd/accounting.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "io/sqlite_history.h"

namespace lockstep {

namespace {

constexpr const char* kStore = "history.db";
constexpr const char* kEndings[] = {"", "-wal", "-shm"};
constexpr int kNamesTried = 100;
constexpr std::uint64_t kPutBackMost = 10'000'000;  // entries: more are no backup but another cluster

bool is_there(const StateDir& state, const std::string& name) {
  struct stat found {};
  return ::fstatat(state.folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

// "history.db.damaged-20260731-120000"; with -2, -3 … where that is taken.
std::string free_name(const StateDir& state) {
  char text[32] = "";
  const time_t now = time(nullptr);
  tm local{};
  if (localtime_r(&now, &local))
    strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  const std::string base = format("{}.damaged-{}", kStore, text);
  for (int i = 2; i < kNamesTried; ++i)
    if (const std::string name = i == 2 ? base : format("{}-{}", base, i - 1); !is_there(state, name))
      return name;
  return base;
}

bool is_new(const StateDir& state) {
  struct stat found {};
  return ::fstatat(state.folder.fd(), kStore, &found, AT_SYMLINK_NOFOLLOW) != 0 ||
         (S_ISREG(found.st_mode) && found.st_size == 0);
}

}  // namespace

bool is_damaged_accounting(const StateDir& state, const Error& error) {
  constexpr std::uint64_t kRoomBytes = 1 << 20;
  struct statvfs disk {};
  if (error.code != Errc::kIo || ::fstatvfs(state.folder.fd(), &disk) != 0)
    return error.code == Errc::kCorrupt;
  return disk.f_bavail * disk.f_frsize > kRoomBytes;  // on a full disk nothing can be opened, and nothing is wrong
}

Result<std::unique_ptr<HistoryStore>> renew_accounting(const StateDir& state, const std::string& why,
                                                       std::vector<std::string>& notices) {
  CHECK(!why.empty());
  const std::string aside = free_name(state);
  for (const char* ending : kEndings) {
    const std::string from = std::string(kStore) + ending, to = aside + ending;
    if (is_there(state, from) && ::renameat(state.folder.fd(), from.c_str(), state.folder.fd(), to.c_str()) != 0)
      return os_error(format("cannot move the damaged {} to {}", state.file(from), to));
  }
  notices.push_back(
      format("accounting was damaged and is made anew from the log, as far back as that reaches: {}. The "
             "damaged file is kept as {}",
             why, state.file(aside)));
  return open_sqlite_history(state.file(kStore));
}

Result<std::unique_ptr<HistoryStore>> open_accounting(const StateDir& state, SqliteLog& log,
                                                      std::vector<std::string>& notices) {
  const std::uint64_t last = TRY(log.last_index());
  const bool was_new = is_new(state);
  auto store = open_sqlite_history(state.file(kStore));
  const auto cursor = store ? (*store)->cursor() : Result<std::uint64_t>(store.error());
  if (!cursor)
    return is_damaged_accounting(state, cursor.error()) ? renew_accounting(state, cursor.error().message, notices)
                                                        : Result<std::unique_ptr<HistoryStore>>(cursor.error());
  if (was_new && last > 0)
    notices.push_back(
        format("{} was missing or empty: accounting is made anew from the log, as far back as that reaches",
               state.file(kStore)));
  if (*cursor <= last)
    return store;
  CHECK(store && *store);
  // One of the two is not of this cluster, or not of this day.
  if (log.is_known_whole() && *cursor - last > kPutBackMost) {
    store->reset();
    return renew_accounting(state, format("it has seen log entry {}, but the log ends at {}", *cursor, last), notices);
  }
  // Noted first: once the log stands in for what it lost, nothing else tells that it did.
  TRY((*store)->note_older_log());
  if (log.is_known_whole())
    TRY(log.put_back(*cursor, state.file(kStore)));
  else
    TRY(log.seen_elsewhere(*cursor, state.file(kStore)));
  return store;
}

}  // namespace lockstep
