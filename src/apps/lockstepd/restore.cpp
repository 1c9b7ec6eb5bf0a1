// `lockstep restore`: a checked backup becomes a state directory, which is quiet until it is taken over.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "apps/lockstepd/backup.h"
#include "apps/lockstepd/backup_files.h"
#include "base/characters.h"
#include "base/check.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/directory_lock.h"
#include "io/local/as_owner.h"
#include "io/local/state_dir.h"
#include "io/sqlite_copy.h"
#include "wire/json_text.h"

namespace lockstep {

namespace {

// The database itself last: as long as it is there, what belongs to it is not all aside.
constexpr std::string_view kWithIt[] = {"-wal", "-shm", "-journal", ""};
constexpr std::int64_t kReserve = 32 << 20;  // the log keeps one
constexpr std::size_t kCaMax = 64 << 10;

// Settings of an installed cluster belong to its machine: they are kept in the backup, and put back by hand.
bool is_put_back(const BackupFile& file) { return !file.name.starts_with("etc/"); }

bool holds(const Folder& folder, const std::string& name) {
  return ::faccessat(folder.fd(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

// A state directory that something is put into: ours, or, for root, that of the user who runs the controller there.
struct Target {
  Folder folder;
  bool was_there = false;  // with a cluster in it
  bool is_new = false;     // made for this restore, or empty until now

  AsOwner owner() const { return AsOwner(folder.fd()); }
};

Result<void> check_not_running(const std::string& dir) {
  if (const std::string who = user_of(dir); !who.empty())
    return conflict(
        format("the cluster in {0} runs ({1}), and a restore would take its log from under it: stop it first "
               "(lockstep down --dir {0}; systemctl stop lockstepd where it is installed), or name a new "
               "directory with --dir",
               dir, who));
  return {};
}

Result<Target> find_target(const DaemonOptions& options) {
  struct stat found {};
  const bool exists = ::stat(options.dir.c_str(), &found) == 0;
  if (exists && !S_ISDIR(found.st_mode))
    return invalid(format("{} is no directory: name a new or an empty one", options.dir));
  const bool has_cluster = exists && (::access((options.dir + "/" + kLogFile).c_str(), F_OK) == 0 ||
                                      ::access((options.dir + "/cluster.conf").c_str(), F_OK) == 0);
  if (has_cluster)
    TRY(check_not_running(options.dir));
  const auto note = exists ? TRY(read_restore_note(options.dir)) : std::nullopt;
  const bool goes_on = note && !note->is_whole;
  if (has_cluster && !goes_on && !options.replace)
    return conflict(
        format("{0} holds a cluster: name a new or an empty directory, or say --replace (what is there is "
               "kept beside it, as lockstep.db.replaced-DATE)",
               options.dir));
  if (exists && ::geteuid() == 0 && found.st_uid != 0 && !mark_in(options.dir).empty())
    return Target{TRY(hold_folder(options.dir)), has_cluster || goes_on, false};
  StateDir state = TRY(claim_state_dir(options.dir));
  return Target{std::move(state.folder), has_cluster || goes_on, state.is_new};
}

Result<void> write_note(const Target& target, const RestoreNote& note) {
  const AsOwner owner = target.owner();
  TRY(target.folder.write(kRestoreNote, restore_note_text(note), 0600));
  return sync_folder(target.folder);
}

// The cluster that is there is the one of the backup where it has the same CA: then its nodes know it, and its
// accounting knows more than the backup's.
bool is_same_cluster(const Folder& backup, const Target& target) {
  const auto theirs = read_plain(backup.path() + "/pki/ca.pem", Links::kRefused, kCaMax);
  const AsOwner owner = target.owner();
  const auto ours = read_plain(target.folder.path() + "/pki/ca.pem", Links::kRefused, kCaMax);
  return theirs && ours && *theirs == *ours;
}

bool is_readable_accounting(const Target& target) {
  const AsOwner owner = target.owner();
  const std::string path = target.folder.path() + "/" + kAccountingFile;
  if (::access(path.c_str(), F_OK) != 0)
    return false;
  auto moment = SqliteMoment::take(path);
  const auto said = moment ? moment->db().text("PRAGMA quick_check(1)") : Result<std::string>(moment.error());
  return said && *said == "ok";
}

std::string stamp() {
  char text[32] = "";
  const time_t now = ::time(nullptr);
  tm utc{};
  if (gmtime_r(&now, &utc))
    strftime(text, sizeof text, "%Y%m%d-%H%M%S", &utc);
  return text;
}

// lockstep.db -> lockstep.db.replaced-20260301-120000, with what SQLite keeps beside it, also where a restore that was
// cut short has moved the file itself. True: something was there.
Result<bool> move_aside(const Folder& folder, const std::string& name, const std::string& suffix) {
  bool was_there = false;
  for (const auto ending : kWithIt) {
    const std::string from = name + std::string(ending), to = name + suffix + std::string(ending);
    if (!holds(folder, from))
      continue;
    if (::renameat(folder.fd(), from.c_str(), folder.fd(), to.c_str()) != 0)
      return os_error(format("cannot move {}/{} aside", folder.path(), from));
    was_there = true;
  }
  return was_there;
}

// A name in a folder, where the backup has "pki/ca.pem".
struct Spot {
  Folder folder;
  std::string name;
};
Result<Spot> spot_in(const Folder& root, const std::string& name) {
  const auto slash = name.find('/');
  if (slash == std::string::npos)
    return Spot{Folder::held(root.path(), ::dup(root.fd())), name};
  return Spot{TRY(root.existing(name.substr(0, slash))), name.substr(slash + 1)};
}

// The same where NAME.new is to be written: its folder is there then, and no such file.
Result<Spot> spot_for_new(const Target& target, const std::string& name) {
  const AsOwner owner = target.owner();
  const std::string folder = name.substr(0, name.find('/'));
  if (folder != name && ::mkdirat(target.folder.fd(), folder.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error(format("cannot make {}/{}", target.folder.path(), folder));
  Spot spot = TRY(spot_in(target.folder, name));
  ::unlinkat(spot.folder.fd(), (spot.name + ".new").c_str(), 0);
  return spot;
}

struct Restored {
  BackupFacts facts;
  std::size_t files = 0;
  bool kept_accounting = false;
  bool has_settings = false;
  std::string aside;  // what the files that were there are called now
};

// Beside their places first; nothing that is there is touched before all of it is there and whole.
Result<void> bring(const Folder& backup, const Target& target, const std::vector<BackupFile>& files,
                   std::int64_t bytes) {
  Counter counter("lockstep restore", bytes);
  for (const BackupFile& file : files) {
    const Spot from = TRY(spot_in(backup, file.name)), to = TRY(spot_for_new(target, file.name));
    const std::string name = to.name + ".new";
    const std::string digest =
        TRY(copy_file(from.folder, from.name, to.folder, name, [&](std::int64_t done) { return counter.at(done); }));
    counter.next_file();
    if (digest != file.sha256)
      return Error{Errc::kCorrupt, format("{}/{} changed while it was read", backup.path(), file.name), {}};
    const AsOwner owner = target.owner();
    if (file.name == kLogFile || file.name == kAccountingFile)
      TRY(check_sqlite(to.folder.path() + "/" + name));
  }
  return {};
}

Result<void> put_in_place(const Target& target, const std::vector<BackupFile>& files, Restored& out) {
  // The CA goes last: until then it tells whose accounting is there, should this be cut short and begin anew.
  std::vector<BackupFile> ordered = files;
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const BackupFile& file) { return !file.name.starts_with("pki/"); });
  const AsOwner owner = target.owner();
  const std::string suffix = std::string(kReplaced) + stamp();
  for (const BackupFile& file : ordered) {
    const Spot to = TRY(spot_in(target.folder, file.name));
    if (TRY(move_aside(to.folder, to.name, suffix)))
      out.aside = suffix;
    if (::renameat(to.folder.fd(), (to.name + ".new").c_str(), to.folder.fd(), to.name.c_str()) != 0)
      return os_error(format("cannot put {}/{} in place", to.folder.path(), to.name));
    TRY(sync_folder(to.folder));
  }
  return {};
}

// What the state that is replaced has left, and says nothing of the one that is put there.
void drop_leftovers(const Target& target, const std::vector<BackupFile>& files) {
  const AsOwner owner = target.owner();
  for (const char* name :
       {"applying", "applying.list", "applying.suspects", "controller.json", "lockstep.tip", "cluster.conf.copy"})
    if (std::none_of(files.begin(), files.end(), [&](const BackupFile& file) { return file.name == name; }))
      ::unlinkat(target.folder.fd(), name, 0);
}

Result<std::unique_ptr<DirectoryLock>> lock_of(const Target& target) {
  const AsOwner owner = target.owner();
  return DirectoryLock::take(target.folder.path());
}

// The files of a checked backup, into their places.
Result<void> put_into(const Target& target, const Folder& backup, std::vector<BackupFile> files, Restored& out) {
  const auto lock = TRY(lock_of(target));  // no controller can start meanwhile
  if (!target.was_there && holds(target.folder, kLogFile))
    return conflict(format("a cluster came into {} meanwhile: another restore?", target.folder.path()));
  if (target.was_there && is_same_cluster(backup, target) && is_readable_accounting(target)) {
    out.kept_accounting = true;
    std::erase_if(files, [](const BackupFile& file) { return file.name == kAccountingFile; });
  }
  std::int64_t bytes = 0;
  for (const BackupFile& file : files) bytes += file_bytes(backup, file.name);
  TRY(check_room(target.folder, "the cluster", bytes + kReserve));
  if (!target.was_there)  // nothing can be started from what is there until it is whole
    TRY(write_note(target, {false, out.facts}));
  TRY(bring(backup, target, files, bytes));
  TRY(write_note(target, {false, out.facts}));
  TRY(put_in_place(target, files, out));
  drop_leftovers(target, files);
  out.files = files.size();
  return write_note(target, {true, out.facts});
}

// Who can write a backup decides what the cluster will be: its jobs, which run as whom they name, and its CA.
Result<void> check_owner(const Folder& backup, const std::vector<BackupFile>& files, const Target& target) {
  struct stat ours {};
  if (::fstat(target.folder.fd(), &ours) != 0)
    return os_error(target.folder.path());
  const auto distrust = [&](const std::string& path, const struct stat& found) -> Result<void> {
    const bool is_open = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (!is_open && (found.st_uid == 0 || found.st_uid == ours.st_uid || found.st_uid == ::geteuid()))
      return {};
    const std::string why =
        is_open ? format("can be written by {}",
                         (found.st_mode & S_IWOTH) != 0 ? std::string("everybody") : format("group {}", found.st_gid))
                : format("belongs to user {}", found.st_uid);
    return denied(
        format("{0} {1}, and a cluster that is made of it runs jobs as whom it names: if it is your backup, "
               "chown -R {2} {3} and chmod -R go-w {3} first",
               path, why, ::geteuid(), backup.path()));
  };
  struct stat found {};
  if (::fstat(backup.fd(), &found) != 0)
    return os_error(backup.path());
  TRY(distrust(backup.path(), found));
  for (const BackupFile& file : files) {
    const Spot spot = TRY(spot_in(backup, file.name));
    const std::string path = format("{}/{}", backup.path(), file.name);
    if (::fstatat(spot.folder.fd(), spot.name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
      return os_error(path);
    TRY(distrust(path, found));
  }
  return {};
}

Result<Restored> restore(const DaemonOptions& options) {
  const std::string source = real_path(options.restore);
  if (source.empty())
    return os_error("cannot read " + options.restore);
  if ((real_place(options.dir) + "/").starts_with(source + "/"))
    return invalid(format("{} lies in the backup itself: name a directory elsewhere", options.dir));
  const Folder backup = TRY(hold_folder(source));
  Counter checked("lockstep restore: checked", 0);
  Backup found = TRY(check_backup(backup, [&](std::int64_t bytes) { return checked.at(bytes); }));
  Restored out;
  out.facts = found.facts;
  out.has_settings = std::any_of(found.files.begin(), found.files.end(), [](const auto& f) { return !is_put_back(f); });
  std::erase_if(found.files, [](const BackupFile& file) { return !is_put_back(file); });
  const Target target = TRY(find_target(options));
  TRY(check_owner(backup, found.files, target));
  if (const auto done = put_into(target, backup, std::move(found.files), out); !done) {
    if (target.is_new)
      if (auto state = find_state_dir(options.dir))
        (void)remove_state_dir(std::move(*state));
    return done.error();
  }
  return out;
}

// Whoever made the backup wrote it.
std::string plain(const std::string& text) { return without_control_characters(text, text.size()); }

void tell_restored(const Restored& done, const DaemonOptions& options) {
  if (options.json) {
    JsonText j;
    j.object().field("dir", options.dir).field("cluster", done.facts.cluster).field("made_at", done.facts.made_at);
    j.field("entry", done.facts.entry).field("seq", done.facts.seq).field("files", done.files);
    j.field("kept_accounting", done.kept_accounting).field("aside", done.aside).end();
    ::printf("%s\n", j.take().c_str());
    return;
  }
  ::printf("cluster \"%s\" as of %s (log entry %llu) is in %s: %zu files, whole\n", plain(done.facts.cluster).c_str(),
           plain(done.facts.made_at).c_str(), static_cast<unsigned long long>(done.facts.entry), options.dir.c_str(),
           done.files);
  if (!done.aside.empty())
    ::printf("what was there is kept beside it, as lockstep.db%s and so on\n", done.aside.c_str());
  if (done.kept_accounting)
    ::printf("the accounting that was there is kept: it is the same cluster's, and knows more\n");
  if (done.has_settings)
    ::printf("settings of the machine it was on are in %s/etc: copy what you want of them to /etc/lockstep\n",
             options.restore.c_str());
}

}  // namespace

int restore_main(const DaemonOptions& options) {
  CHECK(!options.restore.empty() && options.dir.starts_with('/'));
  stop_when_asked();
  const auto done = restore(options);
  if (!done) {
    ::fprintf(stderr, "lockstep restore: %s\n", done.error().message.c_str());
    return 1;
  }
  tell_restored(*done, options);
  return 0;
}

}  // namespace lockstep
