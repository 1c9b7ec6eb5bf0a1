// What the doctor looks at on disk: who may read what (docs/security.md), room, and certificates.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/installed.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "cli/certificate_dates.h"
#include "cli/doctor.h"
#include "frontends/slurm/client/shell_word.h"
#include "io/local/folder.h"

namespace lockstep {

namespace {

using slurm::shell_quoted;

constexpr std::uint64_t kMiB = 1 << 20;

// --- modes ---

// The most that anybody but the owner may have of what a name stands for. The first row that fits counts; "*" is one
// name.
struct Allowed {
  std::string_view path;
  unsigned mode;
  unsigned mode_of_others;  // where the cluster is an ordinary user's
};
constexpr Allowed kAllowed[] = {
    {"", 0711, 0700},
    {"public", 0755, 0755},
    {"public/ca.pem", 0644, 0644},
    {"public/api.sock", 0666, 0600},
    {"hosts", 0644, 0644},
    {"nodes", 0711, 0711},
    {"nodes/*", 0711, 0711},
    {"nodes/*/hostname", 0644, 0644},
    {"nodes/*/profile", 0644, 0644},
    {"nodes/*/gpus", 0644, 0644},
    {"nodes/*/ld.so.cache", 0644, 0644},
    {"nodes/*/run", 0711, 0711},
    {"nodes/*/run/api.sock", 0666, 0600},
    {"nodes/*/state", 0711, 0711},
};
// What of a directory is looked into. Jobs' folders below nodes/*/state are their users'.
constexpr std::string_view kFolders[] = {"", "public", "pki", "log", "nodes", "nodes/*", "nodes/*/pki", "nodes/*/run"};

bool fits(std::string_view pattern, const std::string& path) {
  const auto wanted = split(pattern, '/'), is = split(path, '/');
  return wanted.size() == is.size() && std::equal(wanted.begin(), wanted.end(), is.begin(),
                                                  [](const auto& p, const auto& n) { return p == "*" || p == n; });
}

unsigned allowed_mode(const std::string& path, bool is_folder, bool serves_others) {
  for (const Allowed& row : kAllowed)
    if (fits(row.path, path))
      return serves_others ? row.mode : row.mode_of_others;
  return is_folder ? 0700 : 0600;
}

struct Walk {
  const std::string& root;
  uid_t owner;
  bool serves_others;
  Diagnosis& report;

  void look(const std::string& path, const struct stat& found) const {
    const std::string full = path.empty() ? root : root + "/" + path;
    const unsigned mode = found.st_mode & 0777;
    const unsigned most = allowed_mode(path, S_ISDIR(found.st_mode), serves_others);
    if (found.st_uid != owner)
      report.error(full, format("it belongs to user {}, the cluster to user {}", found.st_uid, owner),
                   format("chown -h {} {}", owner, shell_quoted(full)));
    else if (!S_ISLNK(found.st_mode) && (mode & ~most) != 0)
      report.error(full, format("it is open to others (mode {:o}; {:o} is meant)", mode, most & mode),
                   format("chmod {:o} {}", most & mode, shell_quoted(full)));
  }

  void look_into(const std::string& path) const {
    const int fd = open((root + "/" + path).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
      return;
    const Folder folder = Folder::held(root + "/" + path, fd);
    const auto names = folder.names();
    for (const auto& name : names ? *names : std::vector<std::string>()) {
      struct stat found {};
      const std::string inner = path.empty() ? name : path + "/" + name;
      if (fstatat(folder.fd(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      look(inner, found);
      if (S_ISDIR(found.st_mode) &&
          std::any_of(std::begin(kFolders), std::end(kFolders), [&](auto one) { return fits(one, inner); }))
        look_into(inner);
    }
  }
};

// Who may write to a directory on the way may put another one in its place.
void look_at_the_way(const std::string& root, uid_t owner, Diagnosis& report) {
  for (std::string path = root; path.size() > 1;) {
    const auto slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
    struct stat found {};
    if (stat(path.c_str(), &found) != 0)
      continue;
    if (found.st_uid != 0 && found.st_uid != owner)
      report.error(path, format("it belongs to user {}, who can exchange what lies in it", found.st_uid),
                   format("chown root {}, or keep the cluster elsewhere", shell_quoted(path)));
    else if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (found.st_mode & S_ISVTX) == 0)
      report.error(path, "others may write to it, and so exchange what lies in it", "chmod go-w " + shell_quoted(path));
  }
}

void look_at_file(const std::string& path, unsigned most, Diagnosis& report) {
  struct stat found {};
  if (path.empty() || stat(path.c_str(), &found) != 0)
    return;
  if ((found.st_mode & 0777 & ~most) != 0)
    report.error(path, format("it is open to others (mode {:o})", found.st_mode & 0777),
                 format("chmod {:o} {}", found.st_mode & most, shell_quoted(path)));
  if (found.st_uid != geteuid() && geteuid() == 0)
    report.error(path, format("it belongs to user {}, not to root", found.st_uid), "chown root " + shell_quoted(path));
}

void look_at_modes(const Patient& patient, Diagnosis& report) {
  struct stat found {};
  if (!patient.may_look || stat(patient.dir.root.c_str(), &found) != 0)
    return;
  const Walk walk{patient.dir.root, patient.owner, patient.owner == 0 || patient.is_installed, report};
  walk.look("", found);
  walk.look_into("");
  look_at_the_way(patient.dir.root, patient.owner, report);
  if (!patient.is_installed)
    return;
  const std::string settings = installed_paths().controller_settings;  // what the unit is started with, by root
  look_at_the_way(settings, 0, report);
  look_at_file(settings, 0644, report);
}

void look_at_modes_of_node(const Patient& patient, const NodeHere& node, Diagnosis& report) {
  if (patient.has_controller && node.settings.starts_with(patient.dir.root + "/"))
    return;  // in the cluster's directory
  look_at_the_way(node.settings, geteuid(), report);
  look_at_file(node.settings, 0600, report);
  look_at_file(node.file.key, 0600, report);
}

// --- disks ---

// A commit waits for the disk. Other work of the machine makes single syncs slow; the best of some tells what it can.
std::optional<Duration> sync_time(const std::string& dir) {
  constexpr int kTries = 8;
  constexpr const char* kFile = "/lockstep.doctor";
  const std::string path = dir + kFile;
  unlink(path.c_str());  // of one that was killed
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return std::nullopt;
  const std::string block(4096, 'x');
  std::optional<Duration> best;
  for (int i = 0; i < kTries; ++i) {
    const Instant begin = boot_now();
    if (pwrite(fd, block.data(), block.size(), 4096 * i) < 0 || fdatasync(fd) != 0)
      break;
    best = std::min(best.value_or(kForever), boot_now() - begin);
  }
  close(fd);
  unlink(path.c_str());
  return best;
}

// What is on one disk is said once.
void look_at_room(const std::string& path, const std::string& what, Diagnosis& report) {
  struct statvfs disk {};
  if (path.empty() || statvfs(path.c_str(), &disk) != 0 || disk.f_blocks == 0)
    return;
  const std::uint64_t all = disk.f_blocks * disk.f_frsize, free = disk.f_bavail * disk.f_frsize;
  const std::uint64_t kept = std::min<std::uint64_t>(256 * kMiB, all / 20);
  const std::string left = format("{} MiB of {} are free", free / kMiB, all / kMiB);
  if (free <= kept)
    report.error(path, format("the disk of {} is full: {}", what, left), "make room: df -h " + path);
  else if (free <= 2 * kept)
    report.warning(path, format("the disk of {} is nearly full: {}", what, left), "make room: df -h " + path);
  if (disk.f_files > 0 && disk.f_favail < disk.f_files / 50)
    report.warning(path, format("{} of {} inodes are left on the disk of {}", disk.f_favail, disk.f_files, what),
                   "remove small files: df -i " + path);
}

bool is_in_memory(const std::string& path) {
  struct statfs found {};
  return statfs(path.c_str(), &found) == 0 && (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC);
}

void look_at_disks(const Patient& patient, Diagnosis& report) {
  constexpr Duration kSlow = millis(20);
  const std::string& root = patient.dir.root;
  look_at_room(root, "the log and accounting", report);
  if (is_in_memory(root))
    report.note(root, "it lies in memory: the cluster is gone when this machine is started again");
  if (!patient.may_look)
    return;
  const auto took = sync_time(root);
  if (!took && errno != ENOSPC)
    report.error(root, format("nothing can be written there: {}", strerror(errno)), "see mount and dmesg");
  else if (took && *took > kSlow)
    report.warning(root,
                   format("the disk takes {} ms to sync 4 KiB at best, and every commit waits for it", took->us / 1000),
                   "put it on a faster disk");
}

void look_at_disks_of_node(const Patient&, const NodeHere& node, Diagnosis& report) {
  if (node.is_virtual())
    return;
  look_at_room(node.file.state_dir, "the agent's journal and output of jobs", report);
  look_at_room("/tmp", "/tmp", report);
  if (node.file.run_dir.empty())
    return;
  look_at_room(node.file.run_dir, "the shims", report);
  if (access(node.file.run_dir.c_str(), F_OK) == 0 && !is_in_memory(node.file.run_dir))
    report.warning(node.file.run_dir, "the shims' directory is on a disk: steps start slower, and stale folders stay",
                   "set run_dir to a directory below /run in " + node.settings);
}

// --- certificates ---

void look_at_certificate(const std::string& path, const std::string& whose, const std::string& renew,
                         Diagnosis& report) {
  constexpr std::int64_t kDay = 86'400, kSoon = 30 * kDay;
  const auto pem = read_plain(path, Links::kFollowed);
  if (!pem && pem.error().code == Errc::kNotFound)
    return report.error(path, format("the certificate of {} is missing", whose), renew);
  const auto dates = pem ? certificate_dates(*pem) : std::nullopt;
  if (!pem)
    return report.unknown(path, pem.error().message);
  if (!dates)
    return report.error(path, format("the certificate of {} is damaged", whose), renew);
  const std::int64_t now = time(nullptr);
  if (now < dates->from_s)
    report.error(path, format("the certificate of {} is not valid yet, by this machine's clock", whose),
                 "set the clock");
  else if (now >= dates->until_s)
    report.error(path, format("the certificate of {} ended {} day(s) ago", whose, (now - dates->until_s) / kDay),
                 renew);
  else if (dates->until_s - now < kSoon)
    report.warning(path, format("the certificate of {} ends in {} day(s)", whose, (dates->until_s - now) / kDay),
                   renew);
}

void look_at_certificates(const Patient& patient, Diagnosis& report) {
  if (!patient.may_look)
    return;
  const std::string& root = patient.dir.root;
  look_at_certificate(root + "/pki/ca.pem", "the cluster's CA", "put pki/ back from a backup: lockstep restore --help",
                      report);
  if (access((root + "/pki/ca.key").c_str(), F_OK) != 0 && errno == ENOENT)
    report.error(root + "/pki/ca.key", "the CA's key is missing: no node can join",
                 "put pki/ back from a backup: lockstep restore --help");
  const std::string own = root + "/pki/controller.pem";
  if (access(own.c_str(), F_OK) == 0)
    look_at_certificate(own, "the controller", "restart the controller, which makes a new one", report);
}

void look_at_certificates_of_node(const Patient&, const NodeHere& node, Diagnosis& report) {
  const std::string renew =
      node.file.cluster_dir.empty()
          ? format("on the controller's machine: lockstep node token --node {}; here: lockstep node join",
                   node.file.node)
          : format("lockstep down --dir {0} && lockstep up --dir {0}", node.file.cluster_dir);
  look_at_certificate(node.file.certificate, "node " + node.file.node, renew, report);
  look_at_certificate(node.file.ca, "the CA, as node " + node.file.node + " knows it", renew, report);
  if (access(node.file.key.c_str(), F_OK) != 0 && errno == ENOENT)
    report.error(node.file.key, format("the key of node {} is missing", node.file.node), renew);
}

}  // namespace

constexpr Check kModesCheck{"modes", "modes and owners of every file of the cluster, and of the way to it",
                            look_at_modes, look_at_modes_of_node};
constexpr Check kDisksCheck{"disks", "room, inodes, how long a commit waits for the disk, what is in memory",
                            look_at_disks, look_at_disks_of_node};
constexpr Check kCertificatesCheck{"certificates",
                                   "those of CA, controller and nodes: there, whole, and not about to end",
                                   look_at_certificates, look_at_certificates_of_node};

}  // namespace lockstep
