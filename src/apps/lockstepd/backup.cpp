#include "apps/lockstepd/backup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "apps/lockstepd/backup_files.h"
#include "base/check.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/descriptor.h"
#include "io/local/as_owner.h"
#include "io/log_tip.h"
#include "io/sqlite_copy.h"
#include "wire/json_text.h"

namespace lockstep {

namespace {

constexpr std::size_t kSmallFileMax = 1 << 20;
constexpr int kMomentTries = 20;
constexpr std::int64_t kSmallFiles = 1 << 20;  // together
constexpr std::int64_t kMiB = 1 << 20;

// The log and the accounting of one moment.
struct Moment {
  std::optional<std::string> tip;
  std::optional<SqliteMoment> accounting;
  std::optional<SqliteMoment> log;
  std::uint64_t entry = 0, seq = 0;

  Result<std::int64_t> bytes() { return TRY(log->bytes()) + (accounting ? TRY(accounting->bytes()) : std::int64_t{0}); }
};

Result<std::uint64_t> number_in(SqliteMoment& moment, const char* sql) {
  return static_cast<std::uint64_t>(TRY(moment.db().number(sql)));
}

// The tip is read before the log is: it names an entry that the log then has. Accounting follows the log, which is
// trimmed only behind it; so what is read of it first ends where the log still reaches.
Result<bool> take_moment(const std::string& dir, Moment& out) {
  const LogTip tip(dir + "/" + kTipFile);
  const auto found = tip.read();
  out.tip.reset();
  if (found && found->state == LogTip::State::kWhole)
    if (auto bytes = read_plain(tip.path(), Links::kRefused, kSmallFileMax))
      out.tip = std::move(*bytes);
  out.accounting.reset();
  out.log.reset();
  std::uint64_t cursor = 0;
  const bool has_accounting = ::access((dir + "/" + kAccountingFile).c_str(), F_OK) == 0;
  if (has_accounting) {
    out.accounting.emplace(TRY(SqliteMoment::take(dir + "/" + kAccountingFile)));
    cursor = TRY(number_in(*out.accounting, "SELECT value FROM facts WHERE name = 'cursor'"));
  }
  out.log.emplace(TRY(SqliteMoment::take(dir + "/" + kLogFile)));
  const std::uint64_t trimmed = TRY(number_in(*out.log, "SELECT value FROM facts WHERE name = 'trimmed'"));
  const std::uint64_t closed = TRY(number_in(*out.log, "SELECT max(number) FROM entries WHERE closing = 1"));
  out.entry = std::max(trimmed, closed);
  if (out.entry == 0)
    return not_found(format("{}/{} holds no cluster: nothing was ever committed to it", dir, kLogFile));
  out.seq = TRY(number_in(*out.log, "SELECT max(last_seq) FROM entries WHERE closing = 1"));
  return !has_accounting || (trimmed <= cursor && cursor <= out.entry);
}

// By its owner's rights, which the caller holds as long as this takes.
Result<Moment> one_moment(const std::string& dir, const AsOwner&) {
  Moment out;
  for (int tries = 0; tries < kMomentTries; ++tries)
    if (TRY(take_moment(dir, out)))
      return out;
  return Error{
      Errc::kCorrupt,
      format("{0}/{1} and {0}/{2} do not belong together: what one has seen the other does not have. Start the "
             "controller, which mends that or says what is wrong",
             dir, kLogFile, kAccountingFile),
      {}};
}

Result<void> check_source(const std::string& dir) {
  struct stat found {};
  if (::stat((dir + "/" + kLogFile).c_str(), &found) != 0)
    return errno == EACCES
               ? denied(format("no permission to look into {}: run it as the user whose cluster it is", dir))
               : not_found(format("there is no cluster in {}", dir));
  if (::geteuid() != 0 && found.st_uid != ::geteuid())
    return denied(format("the cluster in {} is another user's: only they, or root, can back it up", dir));
  if (const auto note = TRY(read_restore_note(dir)); note && !note->is_whole)
    return conflict(half_restored_text(dir));
  return {};
}

Result<void> check_target(const std::string& dir, const std::string& target) {
  const std::string cluster = real_path(dir) + "/", place = real_place(target) + "/";
  if (place.starts_with(cluster))
    return invalid(
        format("{} lies in the cluster's own directory {}, and would be lost with it: use another place, best "
               "on another disk",
               target, dir));
  return {};
}

// With what SQLite keeps beside its files, and what was being written.
bool is_a_backups(const std::string& name) {
  std::vector<std::string_view> ours(std::begin(kBackupFiles), std::end(kBackupFiles));
  ours.insert(ours.end(), std::begin(kBackupFolders), std::end(kBackupFolders));
  ours.insert(ours.end(), {kSumsFile, kUnfinishedFile});
  return std::any_of(ours.begin(), ours.end(), [&](std::string_view one) {
    return name.starts_with(one) &&
           (name.size() == one.size() || name[one.size()] == '-' || name.substr(one.size()) == ".new");
  });
}

constexpr std::string_view kUnfinishedText = "This backup is being made, or was interrupted: it is not whole.\n";

// Also where the note itself was being written.
bool is_unfinished(const Folder& folder) {
  const auto text = folder.read(kUnfinishedFile);
  const auto names = folder.names();
  const bool is_bare = names && *names == std::vector{std::string(kUnfinishedFile) + ".new"};
  return is_bare || (text && *text == kUnfinishedText);
}

void remove_backup_files(const Folder& folder) {
  const auto names = folder.names();
  if (!names)
    return;
  ::unlinkat(folder.fd(), kSumsFile, 0);  // first: what is left is no backup
  for (const auto& name : *names) {
    if (!is_a_backups(name) || name == kUnfinishedFile)
      continue;
    if (const auto inner = folder.existing(name)) {
      if (const auto files = inner->names())
        for (const auto& file : *files) ::unlinkat(inner->fd(), file.c_str(), 0);
      ::unlinkat(folder.fd(), name.c_str(), AT_REMOVEDIR);
    } else {
      ::unlinkat(folder.fd(), name.c_str(), 0);
    }
  }
  ::unlinkat(folder.fd(), kUnfinishedFile, 0);
}

// Where a backup is made: a directory of its own, locked, closed to others, empty but for the note that it is
// unfinished. What was not kept is removed again.
class Place {
 public:
  static Result<Place> take(const std::string& path) {
    bool made = false;
    Folder folder = TRY(Folder::make(path, 0700, &made));
    Place place(std::move(folder), made);
    const int fd = place.folder_->fd();
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0)
      return conflict(format("another backup is being made in {}", path));
    if (is_unfinished(*place.folder_))
      remove_backup_files(*place.folder_);
    if (const auto left = TRY(place.folder_->names()); !left.empty() && left != std::vector<std::string>{"lost+found"})
      return conflict(
          format("{} is not empty (it holds {}{}): name a new or an empty directory, or --keep N for dated "
                 "ones below it",
                 path, left[0], left.size() > 1 ? format(" and {} more", left.size() - 1) : ""));
    struct stat found {};
    if (::fstat(fd, &found) != 0 || ::fchmod(fd, 0700) != 0)
      return os_error("cannot close " + path + " to others");
    place.mode_ = found.st_mode & 07777;
    place.is_ours_ = true;
    TRY(place.folder_->write(kUnfinishedFile, kUnfinishedText, 0600));
    return place;
  }
  Place(Place&& other) noexcept
      : folder_(std::move(other.folder_)),
        made_(other.made_),
        mode_(other.mode_),
        is_ours_(std::exchange(other.is_ours_, false)) {}
  ~Place() {
    if (!is_ours_)
      return;
    remove_backup_files(*folder_);
    if (made_)
      ::rmdir(folder_->path().c_str());
    else
      (void)::fchmod(folder_->fd(), mode_);
  }
  const Folder& folder() const { return *folder_; }

  // From now on it is a backup.
  Result<void> keep(const std::string& sums) {
    TRY(folder_->write(kSumsFile, sums, 0600));
    TRY(sync_folder(*folder_));
    if (::unlinkat(folder_->fd(), kUnfinishedFile, 0) != 0)
      return os_error(format("cannot remove {}/{}", folder_->path(), kUnfinishedFile));
    TRY(sync_folder(*folder_));
    is_ours_ = false;
    return {};
  }

 private:
  Place(Folder folder, bool made) : folder_(std::move(folder)), made_(made) {}
  std::optional<Folder> folder_;
  bool made_;
  mode_t mode_ = 0;  // that it had
  bool is_ours_ = false;
};

struct SmallFile {
  std::string name, text;
};

// Regular files of a directory: the CA, settings. Those that are none are not looked at.
Result<std::vector<SmallFile>> small_files(const std::string& from, const std::string& as) {
  std::vector<SmallFile> out;
  Fd opened(::open(from.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.valid() && errno == ENOENT)
    return out;
  if (!opened.valid())
    return os_error("cannot read " + from);
  const Folder source = Folder::held(from, opened.release());
  for (const auto& name : TRY(source.names())) {
    struct stat found {};
    const bool is_left_over = name.ends_with(".new") || name.find(kReplaced) != std::string::npos;
    if (is_left_over || !is_backup_file(as + "/" + name) ||
        ::fstatat(source.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(found.st_mode))
      continue;
    out.push_back({as + "/" + name, TRY(read_plain(from + "/" + name, Links::kRefused, kSmallFileMax))});
  }
  return out;
}

Result<std::vector<SmallFile>> small_files_of_state(const std::string& dir, const AsOwner&) {
  std::vector<SmallFile> out = TRY(small_files(dir + "/pki", "pki"));
  for (const char* name : {"cluster.conf", "applying.list"}) {
    auto text = read_plain(dir + "/" + name, Links::kRefused, kSmallFileMax);
    if (text)
      out.push_back({name, std::move(*text)});
    else if (text.error().code != Errc::kNotFound)
      return text.error();
  }
  return out;
}

Result<void> add(const std::vector<SmallFile>& files, const Folder& into, std::vector<std::string>& names) {
  for (const SmallFile& file : files) {
    const auto slash = file.name.find('/');
    if (slash == std::string::npos) {
      TRY(into.write(file.name, file.text, 0600));
    } else {
      const Folder folder = TRY(into.folder(file.name.substr(0, slash), 0700));
      TRY(folder.write(file.name.substr(slash + 1), file.text, 0600));
      TRY(sync_folder(folder));
    }
    names.push_back(file.name);
  }
  return {};
}

struct Made {
  BackupFacts facts;
  std::string path;
  std::int64_t bytes = 0;
  std::size_t files = 0;
  bool has_accounting = false;
  std::vector<std::string> removed;  // older ones
};

std::string host_of_this() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

Result<void> copy_databases(Moment& moment, const Folder& folder, const DaemonOptions& options,
                            std::vector<std::string>& names) {
  const std::int64_t total = TRY(moment.bytes());
  TRY(check_room(folder, "the backup", total + kSmallFiles));
  Counter counter("lockstep backup", total, options.rate_mib * kMiB);
  for (const auto& [name, database] :
       {std::pair(kLogFile, &moment.log), std::pair(kAccountingFile, &moment.accounting)}) {
    if (!*database)
      continue;
    TRY((*database)->copy_to(folder.path() + "/" + name, [&](std::int64_t bytes) { return counter.at(bytes); }));
    counter.next_file();
    database->reset();  // the cluster's write-ahead log may be begun anew
    names.push_back(name);
  }
  return {};
}

// What was written is what can be read, and SQLite finds no damage in it.
Result<std::vector<BackupFile>> read_back(const Folder& folder, const std::vector<std::string>& names, Made& made) {
  for (const auto& name : names) made.bytes += file_bytes(folder, name);
  Counter counter("lockstep backup: checked", made.bytes);
  std::vector<BackupFile> files;
  for (const auto& name : names) {
    files.push_back({name, TRY(digest_of(folder, name, [&](std::int64_t bytes) { return counter.at(bytes); }))});
    counter.next_file();
    if (name == kLogFile || name == kAccountingFile)
      TRY(check_sqlite(folder.path() + "/" + name));
  }
  return files;
}

Result<Made> make_one(const DaemonOptions& options, const std::string& path) {
  Place place = TRY(Place::take(path));
  const Folder& folder = place.folder();
  const Folder state = TRY(hold_folder(options.dir));
  Moment moment = TRY(one_moment(options.dir, AsOwner(state.fd())));
  Made made;
  made.path = path;
  made.has_accounting = moment.accounting.has_value();
  made.facts = {LOCKSTEP_VERSION, options.cluster_name, utc_text(::time(nullptr)), moment.entry, moment.seq,
                host_of_this(),   options.dir,          mark_in(options.dir)};
  std::vector<std::string> names;
  TRY(copy_databases(moment, folder, options, names));
  if (moment.tip) {
    TRY(folder.write(kTipFile, *moment.tip, 0600));
    names.emplace_back(kTipFile);
  }
  TRY(add(TRY(small_files_of_state(options.dir, AsOwner(state.fd()))), folder, names));
  if (!options.settings.empty())
    TRY(add(TRY(small_files(options.settings, "etc")), folder, names));
  TRY(folder.write(kManifestFile, facts_text(made.facts), 0600));
  names.emplace_back(kManifestFile);
  const auto files = TRY(read_back(folder, names, made));
  made.files = files.size();
  TRY(place.keep(sums_text(files)));
  return made;
}

// 20260301-120000
bool is_dated(const std::string& name) {
  constexpr std::size_t kLength = 15;
  return name.size() == kLength && name[8] == '-' &&
         name.substr(0, 8).find_first_not_of("0123456789") == std::string::npos &&
         name.substr(9, 6).find_first_not_of("0123456789") == std::string::npos;
}

// Waits for a second that has no backup yet: names in the order of their times are what `prune` goes by.
std::string dated_name(const Folder& folder) {
  for (;; ::usleep(50'000)) {
    char text[32] = "";
    const time_t now = ::time(nullptr);
    tm utc{};
    if (gmtime_r(&now, &utc))
      strftime(text, sizeof text, "%Y%m%d-%H%M%S", &utc);
    if (::faccessat(folder.fd(), text, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
      return text;
  }
}

// A directory below is one of ours to remove when it is a backup of this cluster, or was to become one.
bool is_whole_backup(const Folder& folder, const BackupFacts& like) {
  const auto manifest = folder.read(kManifestFile);
  const auto facts = manifest ? parse_facts(*manifest) : Result<BackupFacts>(manifest.error());
  // Many clusters have the name that is the default; the mark of its directory has one alone.
  return facts && facts->cluster == like.cluster && facts->mark == like.mark && folder.read(kSumsFile).ok();
}

// What is older than the newest `count`, and what was interrupted. The one that was just made stays, whatever a clock
// said to others.
void prune(const Folder& base, std::size_t count, const Made& made, std::vector<std::string>& removed) {
  const auto names = base.names();
  if (!names)
    return;
  std::size_t kept = 0;
  for (auto name = names->rbegin(); name != names->rend(); ++name) {
    if (!is_dated(*name))
      continue;
    const auto folder = base.existing(*name);
    if (made.path == base.path() + "/" + *name) {
      ++kept;
      continue;
    }
    if (!folder || ::flock(folder->fd(), LOCK_EX | LOCK_NB) != 0)
      continue;
    if (!is_unfinished(*folder) && (!is_whole_backup(*folder, made.facts) || ++kept <= count))
      continue;
    remove_backup_files(*folder);
    if (::unlinkat(base.fd(), name->c_str(), AT_REMOVEDIR) == 0)
      removed.push_back(base.path() + "/" + *name);
  }
}

Result<Made> make_dated(const DaemonOptions& options) {
  bool made_base = false;
  const Folder base = TRY(Folder::make(options.backup, 0700, &made_base));
  struct stat found {};
  if (::fstat(base.fd(), &found) == 0 && (found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return denied(format("others may write to {0}: chmod go-w {0}", options.backup));
  auto made = make_one(options, base.path() + "/" + dated_name(base));
  if (!made && made_base)
    ::rmdir(base.path().c_str());
  if (made)
    prune(base, options.keep, *made, made->removed);
  return made;
}

// The cluster comes first: for a processor and for a disk.
void step_back() {
  constexpr int kNice = 10, kWhoProcess = 1, kIdleClass = 3 << 13;
  (void)::setpriority(PRIO_PROCESS, 0, kNice);
  (void)::syscall(SYS_ioprio_set, kWhoProcess, 0, kIdleClass);
}

Result<Made> backup(const DaemonOptions& options) {
  TRY(check_source(options.dir));
  TRY(check_target(options.dir, options.backup));
  step_back();
  DaemonOptions at = options;
  at.dir = real_path(options.dir);
  return options.keep > 0 ? make_dated(at) : make_one(at, options.backup);
}

std::string size_text(std::int64_t bytes) {
  return bytes < 10 * kMiB ? format("{} KiB", (bytes + 1023) / 1024) : format("{} MiB", bytes / kMiB);
}

void tell_made(const Made& made, bool as_json) {
  if (as_json) {
    JsonText j;
    j.object().field("path", made.path).field("cluster", made.facts.cluster).field("made_at", made.facts.made_at);
    j.field("entry", made.facts.entry).field("seq", made.facts.seq).field("bytes", made.bytes);
    j.field("files", made.files).field("accounting", made.has_accounting).key("removed").array();
    for (const auto& path : made.removed) j.value(path);
    j.end().end();
    ::printf("%s\n", j.take().c_str());
    return;
  }
  ::printf("cluster \"%s\" as of %s (log entry %llu) is in %s: %zu files, %s, read back and whole\n",
           made.facts.cluster.c_str(), made.facts.made_at.c_str(), static_cast<unsigned long long>(made.facts.entry),
           made.path.c_str(), made.files, size_text(made.bytes).c_str());
  if (!made.has_accounting)
    ::printf("there was no accounting (history.db): it is made anew from the log, as far back as that reaches\n");
  for (const auto& path : made.removed) ::printf("removed %s\n", path.c_str());
}

}  // namespace

std::string real_place(std::string path) {
  for (;;) {
    if (const std::string real = real_path(path); !real.empty())
      return real;
    const auto slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0)
      return "/";
    path.resize(slash);
  }
}

std::string real_path(const std::string& path) {
  char* const real = ::realpath(path.c_str(), nullptr);
  const std::string out = real ? real : "";
  ::free(real);
  return out;
}

int backup_main(const DaemonOptions& options) {
  CHECK(!options.backup.empty() && options.dir.starts_with('/'));
  stop_when_asked();
  const auto made = backup(options);
  if (!made) {
    ::fprintf(stderr, "lockstep backup: %s. No backup was made; the cluster is as it was\n",
              made.error().message.c_str());
    return 1;
  }
  tell_made(*made, options.json);
  return 0;
}

}  // namespace lockstep
