#include "io/local/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/mutant.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "io/local/backup_note.h"
#include "io/local/text_check.h"

namespace lockstep {

namespace {

constexpr std::string_view kMarkLine = "This directory holds the state of a Lockstep cluster.\nid=";
constexpr std::size_t kIdDigits = 32;
constexpr std::string_view kMadeByFileSystem = "lost+found";
constexpr const char* kHalfDeletedFile = "lockstep.deleting";
constexpr const char* kLogTip = "lockstep.tip";  // up to where the log was acknowledged
constexpr int kSomebodyElseTries = 10;           // of 20 ms, while another `lockstep up` makes the directory

// What we put into one folder of a state directory. A family stands for all names that begin with it: lockstep.db-wal.
struct Level {
  struct Inside {
    std::string_view name;  // "*": any
    const Level* level;     // null: all in it is ours
  };
  std::vector<std::string_view> files, families;
  std::vector<Inside> folders;

  bool holds_file(std::string_view name) const {
    if (constexpr std::string_view kUnfinished = ".new"; name.ends_with(kUnfinished))
      name.remove_suffix(kUnfinished.size());
    return std::find(files.begin(), files.end(), name) != files.end() ||
           std::any_of(families.begin(), families.end(), [&](auto family) { return name.starts_with(family); });
  }
  const Inside* folder(std::string_view name) const {
    for (const Inside& inside : folders)
      if (inside.name == name || inside.name == "*")
        return &inside;
    return nullptr;
  }
};
const Level kPublicLevel{{"api.sock", "ca.pem"}, {}, {}};
const Level kPkiLevel{{}, {"ca.", "controller.", "node.", "service-accounts."}, {}};
const Level kLogLevel{{}, {"controller.log"}, {}};
const Level kRunLevel{{"api.sock", "gpus"}, {}, {}};
const Level kStateLevel{{"lock", "services.lock", "journal", "journal.tip", "lease", "mig_slices"},
                        {},
                        {{"shims", nullptr},
                         {"hooks", nullptr},
                         {"containers", nullptr},
                         {"mps", nullptr},
                         {"places", nullptr},
                         {"scratch", nullptr}}};
const Level kNodeLevel{{"agent.json", "init.pid", "agent.run", "boot_id", "gpus", "gpus.lock", "hostname", "profile",
                        "ld.so.cache", "ld.so.conf"},
                       {"log"},
                       {{"pki", &kPkiLevel}, {"run", &kRunLevel}, {"state", &kStateLevel}}};
const Level kNodesLevel{{}, {}, {{"*", &kNodeLevel}}};
// "up.lock": older versions made it.
const Level kTopLevel{
    {"hosts", "reserve", "lock", "api.sock", "up.lock", "agent-settings.json"},
    {"cluster.conf", "lockstep.", "history.db", "applying", "controller."},
    {{"public", &kPublicLevel}, {"pki", &kPkiLevel}, {"log", &kLogLevel}, {"nodes", &kNodesLevel}, {"vms", nullptr}}};

bool known_file(std::string_view name) { return kTopLevel.holds_file(name); }
bool known_folder(std::string_view name) { return kTopLevel.folder(name) != nullptr; }

// A copy of a directory holds the same mark, and processes of the original are none of the copy's: the file itself,
// which a moved directory keeps, belongs to the id.
Result<std::string> id_here(const Folder& folder, std::string mark) {
  struct stat found {};
  if (::fstatat(folder.fd(), kMarkFile, &found, AT_SYMLINK_NOFOLLOW) != 0)
    return os_error(folder.path() + "/" + kMarkFile);
  return std::move(mark) + format("{:x}", found.st_ino);
}

std::string mark_text(const std::string& id) {
  const std::string text = format("{}{}\n", kMarkLine, id);
  return text + format("check={:016x}\n", text_check(text));
}

Result<std::string> read_mark(const Folder& folder) {
  const std::string text = TRY(folder.read(kMarkFile));
  const std::string_view rest = std::string_view(text).substr(std::min(text.size(), kMarkLine.size()));
  const std::string id(trim(rest.substr(0, rest.find('\n'))));
  // Marks of older versions hold no check.
  const bool whole = rest == id + "\n" || rest == id || text == mark_text(id);
  if (!whole || !text.starts_with(kMarkLine) || id.size() != kIdDigits ||
      id.find_first_not_of("0123456789abcdef") != id.npos)
    return Error{Errc::kCorrupt, format("{}/{} is damaged: it holds no id", folder.path(), kMarkFile), {}};
  return id_here(folder, id);
}

// A mark that is there and does not say who we are.
Error unreadable_mark(const Folder& folder, const Error& why) {
  return {
      why.code,
      format("{0}. Processes of this cluster are known by it. {3}top them with: lockstep down --dir {1}; then remove "
             "{1}/{2}, and `lockstep up --dir {1}` makes a new one. Jobs and history are not concerned",
             why.message, folder.path(), kMarkFile, why.code == Errc::kIo ? "Make it readable (chmod 600), or s" : "S"),
      {}};
}

Result<std::string> make_mark(const Folder& folder) {
  unsigned char bytes[kIdDigits / 2];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    return os_error("getrandom");
  std::string id;
  for (const unsigned char byte : bytes) id += format("{:02x}", byte);
  CHECK(id.size() == kIdDigits, id);
  TRY(folder.write(kMarkFile, mark_text(id), 0600));
  return id_here(folder, std::move(id));
}

// What a claim leaves that is killed before it wrote the mark.
bool is_of_a_claim(const std::string& name) {
  return name == kMarkFile + std::string(".new") || name == kOriginFile + std::string(".new") || name == kOriginFile;
}
bool empty(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(),
                     [](const std::string& name) { return name == kMadeByFileSystem || is_of_a_claim(name); });
}

constexpr std::string_view kMadeByUs = "made by lockstep\n", kFoundWithMode = "found empty, with mode ";

// What was there before us stays when the cluster goes, as it was.
Result<void> note_origin(const Folder& folder, bool made, unsigned mode) {
  CHECK((mode & ~07777U) == 0, format("mode {:o}", mode));
  if (made)
    return folder.write(kOriginFile, kMadeByUs, 0600);
  if (folder.read(kOriginFile))  // of a claim that was interrupted
    return {};
  return folder.write(kOriginFile, format("{}{:o}\n", kFoundWithMode, mode), 0600);
}

// Without a note of it, as older versions left none, neither is set.
struct Origin {
  bool made = false;
  std::optional<unsigned> mode;  // of one that was there before: the mode that it had
};
Origin origin_of(const Folder& folder) {
  const auto text = folder.read(kOriginFile);
  if (!text || *text == kMadeByUs)
    return {text.ok(), {}};
  Origin found;
  if (text->starts_with(kFoundWithMode))
    found.mode = static_cast<unsigned>(::strtoul(text->c_str() + kFoundWithMode.size(), nullptr, 8) & 07777);
  return found;
}

// A claim that came to nothing leaves none of its files, and the directory as it was.
void undo_claim(const Folder& folder) {
  const Origin origin = origin_of(folder);
  const auto names = folder.names();
  for (const auto& name : names ? *names : std::vector<std::string>())
    if (is_of_a_claim(name))
      (void)!::unlinkat(folder.fd(), name.c_str(), 0);
  if (origin.mode)
    (void)!::fchmod(folder.fd(), *origin.mode);
  if (origin.made)
    (void)!::rmdir(folder.path().c_str());
}

}  // namespace

std::string cluster_above(std::string path) {
  for (std::size_t slash = path.rfind('/'); slash != path.npos && slash > 0; slash = path.rfind('/')) {
    path.resize(slash);
    struct stat mark {};
    if (::lstat((path + "/" + kMarkFile).c_str(), &mark) == 0 && S_ISREG(mark.st_mode) &&
        (mark.st_uid == 0 || mark.st_uid == geteuid()))
      return path;
  }
  return {};
}

namespace {

// Whether an empty directory of ours may become a cluster's.
Result<void> may_be_taken(const Folder& folder, unsigned mode) {
  if (const std::string above = cluster_above(folder.real_path()); !above.empty())
    return denied(format("{} lies in {}, the state directory of another cluster: use a directory outside of it",
                         folder.path(), above));
  if ((mode & (S_IWGRP | S_IWOTH)) != 0)
    return denied(format(
        "{} is open to other users (mode {:o}), and a state directory is for its owner alone: {}", folder.path(), mode,
        (mode & S_ISVTX) != 0 ? format("name a new directory in it, such as {}/lockstep", folder.path())
                              : format("use another one, or: chmod go-w {}", folder.path())));
  return {};
}

// Versions before the mark: what they wrote says so, and belongs to us as the directory does.
bool made_by_older_version(const Folder& folder) {
  const auto conf = folder.read("cluster.conf");
  if (conf && conf->starts_with("# Written by lockstep up."))
    return true;
  constexpr std::string_view kLogId = "LSLG";
  constexpr std::size_t kIdAt = 68;  // SQLite's application id
  const auto log = folder.read("lockstep.db");
  return log && log->size() > kIdAt + kLogId.size() && log->substr(kIdAt, kLogId.size()) == kLogId;
}

// Jobs that wait in a backup would run a second time, and what was backed up would be gone.
Result<void> check_no_backup(const Folder& folder) {
  for (const char* name : {kSumsFile, kUnfinishedFile})
    if (::faccessat(folder.fd(), name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
      return denied(
          format("{0} is a backup, no cluster: `lockstep restore {0} --dir NEW` makes a cluster of it", folder.path()));
  return {};
}

Error not_ours(const Folder& folder, const std::vector<std::string>& names) {
  return denied(format("{} is not empty and not a Lockstep state directory (it holds {}{}): name a new or an empty one",
                       folder.path(), names[0], names.size() > 1 ? format(" and {} more", names.size() - 1) : ""));
}

unsigned folder_mode(std::string_view name) {
  if (name == "public")
    return serves_others() ? 0755 : 0700;
  return name == "nodes" ? pass_through_mode() : 0700;
}

// What is read by everybody on a node: it is bound over files in /etc there, or drives the node's simulated GPUs.
bool for_everybody(std::string_view name) {
  return name == "hosts" || name == "hostname" || name == "profile" || name == "ld.so.cache" || name == "gpus";
}

// Takes what is too much from the mode of one entry that is ours, and adds what we need. 1 if something was too much.
std::size_t tighten_entry(const Folder& folder, const std::string& name, unsigned allowed) {
  struct stat found {};
  if (::fstatat(folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 || found.st_uid != geteuid())
    return 0;
  const unsigned mode = found.st_mode & 07777;
  const bool counts = S_ISREG(found.st_mode) || S_ISDIR(found.st_mode);
  // Ours must be readable for us, whoever took that away.
  const unsigned needed = S_ISREG(found.st_mode) ? S_IRUSR | S_IWUSR : 0;
  if (counts && (mode & needed) != needed)
    (void)!::fchmodat(folder.fd(), name.c_str(), (mode & allowed) | needed, 0);
  if (!counts || (mode & ~allowed) == 0)
    return 0;
  return ::fchmodat(folder.fd(), name.c_str(), (mode & allowed) | needed, 0) == 0 ? 1 : 0;
}

std::vector<std::string> names_in(const Folder& folder) {
  auto names = folder.names();
  return names ? std::move(*names) : std::vector<std::string>();
}

bool holds_folder(const Folder& folder, const std::string& name) {
  struct stat found {};
  return ::fstatat(folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode);
}

std::size_t tighten_files(const Folder& parent, const std::string& name, unsigned mode) {
  if (!holds_folder(parent, name))
    return 0;
  std::size_t count = tighten_entry(parent, name, mode);
  if (const auto folder = parent.folder(name, mode))
    for (const auto& file : names_in(*folder))
      if (!holds_folder(*folder, file))
        count += tighten_entry(*folder, file, for_everybody(file) ? 0644 : 0600);
  return count;
}

// A node's folder: what jobs reach there is passed through to, nothing of it can be listed.
std::size_t tighten_node(const Folder& nodes, const std::string& name) {
  std::size_t count = tighten_files(nodes, name, pass_through_mode());
  const auto node = nodes.folder(name, pass_through_mode());
  if (!node)
    return count;
  return count + tighten_entry(*node, "run", pass_through_mode()) + tighten_files(*node, "state", pass_through_mode()) +
         tighten_files(*node, "pki", 0700);
}

std::size_t tighten(const Folder& folder) {
  std::size_t count = 0;
  for (const auto& name : names_in(folder))
    if (known_folder(name) || known_file(name))
      count += tighten_entry(folder, name, known_folder(name) ? folder_mode(name) : for_everybody(name) ? 0644 : 0600);
  count += tighten_files(folder, "pki", 0700) + tighten_files(folder, "log", 0700);
  if (holds_folder(folder, "public"))
    if (const auto open_to_all = folder.folder("public", folder_mode("public")))
      count += tighten_entry(*open_to_all, "ca.pem", 0644);
  if (!holds_folder(folder, "nodes"))
    return count;
  const auto nodes = folder.folder("nodes", pass_through_mode());
  for (const auto& name : nodes ? names_in(*nodes) : std::vector<std::string>())
    if (holds_folder(*nodes, name))
      count += tighten_node(*nodes, name);
  return count;
}

Result<StateDir> ready(Folder folder, std::string id) {
  struct stat found {};
  if (::fstat(folder.fd(), &found) != 0 || ::fchmod(folder.fd(), pass_through_mode()) != 0)
    return os_error("cannot set the mode of " + folder.path());
  CHECK(id.size() >= kIdDigits, id);
  StateDir dir{std::move(folder), std::move(id)};
  dir.tightened = tighten(dir.folder) + ((found.st_mode & 07777 & ~pass_through_mode()) != 0 ? 1 : 0);
  return dir;
}

// Who takes a directory holds its lock for as long as a mark takes to reach the disk: seconds on a slow one. An `up` or
// `down` holds it for a minute and longer, which is told instead of waited for.
constexpr int kLockPatienceMs = 10'000;

bool locks(const Folder& folder) {
  constexpr int kTryAgainMs = 20;
  for (int waited = 0; waited < kLockPatienceMs; waited += kTryAgainMs) {
    if (::flock(folder.fd(), LOCK_EX | LOCK_NB) == 0)
      return true;
    ::usleep(kTryAgainMs * 1000);
  }
  return false;
}

std::vector<std::string> without_those_of_a_claim(std::vector<std::string> names) {
  std::erase_if(names, is_of_a_claim);
  return names;
}

// Takes a directory whose lock is held. kConflict: something was put there meanwhile.
Result<std::string> mark_one(const Folder& folder, const std::vector<std::string>& names, bool made, unsigned mode) {
  if (made || empty(names))                // else an older version's
    TRY(note_origin(folder, made, mode));  // first: whenever we are killed, the mode that it had is known
  // Others may have written here until now: closed first, then looked at once more.
  if (::fchmod(folder.fd(), pass_through_mode()) != 0)
    return os_error("cannot set the mode of " + folder.path());
  if (without_those_of_a_claim(TRY(folder.names())) != without_those_of_a_claim(names))
    return conflict("");
  return make_mark(folder);
}

// What of a directory was there when it was looked at, its lock held.
struct Untaken {
  std::vector<std::string> names;
  unsigned mode = 0;
  bool made = false;  // by us
};

// Puts our mark there. nullopt: somebody else of us did so first, and another look will find it.
Result<std::optional<StateDir>> take(Folder folder, const Untaken& found, bool last_try) {
  const std::string path = folder.path();
  if (const auto may = empty(found.names) ? may_be_taken(folder, found.mode) : Result<void>(); !may) {
    if (found.made)
      ::rmdir(path.c_str());
    return may.error();
  }
  auto id = mark_one(folder, found.names, found.made, found.mode);
  if (id) {
    StateDir dir = TRY(ready(std::move(folder), std::move(*id)));
    dir.is_new = empty(found.names);
    (void)!::flock(dir.folder.fd(), LOCK_UN);
    return std::optional<StateDir>(std::move(dir));
  }
  // A full disk, or somebody was quicker.
  const auto now = TRY(folder.names());
  const bool another_of_us = read_mark(folder).ok();
  if (!another_of_us && empty(found.names))
    undo_claim(folder);
  if (!another_of_us && found.made)
    (void)!::rmdir(path.c_str());
  if (id.error().code != Errc::kConflict)
    return id.error();
  if (another_of_us && !last_try)
    return std::optional<StateDir>();
  return not_ours(folder, now);
}

// One look: a state directory, or why not. nullopt: somebody else may be making it just now. `made`: a look of ours has
// made the directory, whoever wrote the mark then.
Result<std::optional<StateDir>> look(const std::string& path, bool last_try, bool& made) {
  bool made_now = false;
  Folder folder = TRY(Folder::make(path, pass_through_mode(), &made_now));
  made = made || made_now;
  auto mark = read_mark(folder);
  if (mark && made)
    TRY(note_origin(folder, made, 0));
  if (mark)
    return std::optional<StateDir>(TRY(ready(std::move(folder), std::move(*mark))));
  if (mark.error().code != Errc::kNotFound)
    return unreadable_mark(folder, mark.error());
  TRY(check_no_backup(folder));
  // Two that begin at once make one cluster: only who holds the lock takes the directory.
  if (!locks(folder))
    return conflict(format("{} is locked by another `lockstep up` or `lockstep down`: try again", path));
  if (read_mark(folder))
    return look(path, last_try, made);  // written while we came
  auto names = TRY(folder.names());
  const bool takes = empty(names) || made_by_older_version(folder) || mutant(Mutant::kForeignDirectory);
  if (!takes && !last_try)
    return std::optional<StateDir>();
  if (!takes)
    return not_ours(folder, names);
  struct stat found {};
  if (::fstat(folder.fd(), &found) != 0)
    return os_error(path);
  return take(std::move(folder), {std::move(names), static_cast<unsigned>(found.st_mode & 07777), made}, last_try);
}

// --- removing ---

Result<void> remove_entry(int parent, const std::string& name, const std::string& path, dev_t device);

Result<void> remove_inside(const Folder& folder, dev_t device) {
  for (const auto& name : TRY(folder.names())) TRY(remove_entry(folder.fd(), name, folder.path() + "/" + name, device));
  return {};
}

// Follows nothing, and does not leave the file system that the directory lies on.
Result<void> remove_entry(int parent, const std::string& name, const std::string& path, dev_t device) {
  struct stat found {};
  if (::fstatat(parent, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT ? Result<void>() : os_error("cannot remove " + path);
  if (!S_ISDIR(found.st_mode))
    return ::unlinkat(parent, name.c_str(), 0) == 0 ? Result<void>() : os_error("cannot remove " + path);
  if (found.st_dev != device)
    return denied(path + " is another file system: unmount it first");
  const int fd = ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error("cannot remove " + path);
  {
    const Folder inside = Folder::held(path, fd);
    TRY(remove_inside(inside, device));
  }
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 ? Result<void>() : os_error("cannot remove " + path);
}

struct Removal {
  dev_t device;      // that all of it must lie on
  std::size_t base;  // length of the state directory's own path, in those that are reported
};

// What an entry of a level is to us.
enum class Entry : unsigned char { kLeftForLast, kLevel, kOurs, kForeign };
Entry entry_of(const Folder& folder, const Level& level, const std::string& name) {
  // The marks go last: what is interrupted stays ours.
  const bool is_mark = name == kMarkFile || name == kOriginFile || name == kHalfDeletedFile;
  if (&level == &kTopLevel && (is_mark || name == kMadeByFileSystem))
    return Entry::kLeftForLast;
  const bool is_folder = holds_folder(folder, name);
  const Level::Inside* inside = is_folder ? level.folder(name) : nullptr;
  if (inside && inside->level)
    return Entry::kLevel;
  const bool ours = inside || (!is_folder && level.holds_file(name)) || mutant(Mutant::kForeignDirectory);
  return ours ? Entry::kOurs : Entry::kForeign;
}

// Removes what has a name of ours at this level and below. What has not is left, and its path noted; so are the folders
// that lead to it.
Result<void> remove_known(const Folder& folder, const Level& level, const Removal& removal,
                          std::vector<std::string>& kept) {
  for (const auto& name : TRY(folder.names())) {
    const std::string path = folder.path() + "/" + name;
    CHECK(path.size() > removal.base, path);
    switch (entry_of(folder, level, name)) {
      case Entry::kLeftForLast: break;
      case Entry::kForeign: kept.push_back(path.substr(removal.base)); break;
      case Entry::kOurs: TRY(remove_entry(folder.fd(), name, path, removal.device)); break;
      case Entry::kLevel: {
        const std::size_t before = kept.size();
        const Level* below = level.folder(name)->level;
        TRY(remove_known(TRY(folder.existing(name)), *below, removal, kept));
        if (kept.size() == before)
          TRY(remove_entry(folder.fd(), name, path, removal.device));
      }
    }
  }
  return {};
}

}  // namespace

namespace {
bool told_to_serve_everyone = false;
}  // namespace

bool serves_others() { return ::geteuid() == 0 || told_to_serve_everyone; }
void serve_everyone() { told_to_serve_everyone = true; }
unsigned socket_mode() { return serves_others() ? 0666 : 0600; }
unsigned pass_through_mode() { return serves_others() ? 0711 : 0700; }

std::string user_of(const std::string& directory) {
  constexpr int kTries = 100;
  constexpr useconds_t kTryAgainUs = 20'000;
  const auto opened = open_plain(directory + "/lock", O_RDONLY);
  if (!opened)
    return {};
  const int fd = *opened;
  std::string who;
  for (int tries = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) {
    char pid[32] = "";
    (void)!::pread(fd, pid, sizeof pid - 1, 0);
    if (tries == kTries) {
      who = format("process {}", *pid ? std::string(trim(pid)) : "unknown");
      break;
    }
    ::usleep(kTryAgainUs);
  }
  ::close(fd);
  return who;
}

std::size_t close_to_others(const StateDir& dir) { return tighten(dir.folder); }

Result<StateDir> claim_state_dir(const std::string& path) {
  CHECK(path.starts_with('/'), path);
  bool made = false;
  for (int tries = 1;; ++tries) {
    auto found = TRY(look(path, tries == kSomebodyElseTries, made));
    if (found)
      return std::move(*found);
    ::usleep(20'000);
  }
}

Result<StateDir> find_state_dir(const std::string& path) {
  Folder folder = TRY(Folder::open(path));
  auto mark = read_mark(folder);
  if (mark)
    return StateDir{std::move(folder), std::move(*mark)};
  if (mark.error().code != Errc::kNotFound)
    return unreadable_mark(folder, mark.error());
  TRY(check_no_backup(folder));
  if (made_by_older_version(folder) || mutant(Mutant::kForeignDirectory))
    return StateDir{TRY(Folder::open(path)), TRY(make_mark(folder))};
  const auto names = TRY(folder.names());
  return empty(names) ? not_found(path + " holds no cluster") : not_ours(folder, names);
}

Result<bool> remove_begun_claim(const std::string& path) {
  const Folder folder = TRY(Folder::open(path));
  if (!locks(folder))
    return conflict(format("{} is locked by another `lockstep up` or `lockstep down`: try again", path));
  const auto names = TRY(folder.names());
  if (!empty(names) || std::none_of(names.begin(), names.end(), is_of_a_claim))
    return false;
  undo_claim(folder);
  return true;
}

bool is_half_deleted(const Folder& folder) { return folder.read(kHalfDeletedFile).ok(); }

std::string half_deleted_text(const std::string& path) {
  return format(
      "{0} is half deleted: a `lockstep down --delete` of it did not come to its end. This removes the rest: lockstep "
      "down --delete --dir {0}",
      path);
}

Result<Removed> remove_state_dir(StateDir dir) {
  CHECK(!dir.id.empty(), dir.folder.path());
  struct stat found {};
  if (::fstat(dir.folder.fd(), &found) != 0)
    return os_error(dir.folder.path());
  Removed removed;
  // Of a log that has lost its end a controller would say that it is damaged. Without room for a note of it the log's
  // tip goes first, after which nobody misses anything.
  (void)dir.folder.write(kHalfDeletedFile, "", 0600);
  TRY(remove_entry(dir.folder.fd(), kLogTip, dir.file(kLogTip), found.st_dev));
  TRY(remove_known(dir.folder, kTopLevel, {found.st_dev, dir.folder.path().size() + 1}, removed.kept));
  TRY(remove_entry(dir.folder.fd(), kHalfDeletedFile, dir.file(kHalfDeletedFile), found.st_dev));
  if (!removed.kept.empty())
    return removed;
  const Origin origin = origin_of(dir.folder);
  for (const char* last : {kMarkFile, kOriginFile})
    TRY(remove_entry(dir.folder.fd(), last, dir.file(last), found.st_dev));
  if (origin.mode)
    (void)!::fchmod(dir.folder.fd(), *origin.mode);
  // A mount point stays, and a file system's own folder in it.
  removed.directory_stays = origin.mode || ::rmdir(dir.folder.path().c_str()) != 0;
  if (!origin.mode && removed.directory_stays && errno != EBUSY && errno != ENOTEMPTY)
    return os_error("cannot remove " + dir.folder.path());
  return removed;
}

}  // namespace lockstep
