#include "shim/scratch_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kFirstInSubvolume = 256;  // BTRFS_FIRST_FREE_OBJECTID
constexpr int kProjectQuota = 2;                  // PRJQUOTA
constexpr const char* kTrial = ".trial";

bool is_btrfs(int directory) {
  struct statfs found {};
  return ::fstatfs(directory, &found) == 0 && found.f_type == BTRFS_SUPER_MAGIC;
}

int open_inside(int directory, const std::string& name) {
  return ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

bool name_into(btrfs_ioctl_vol_args& args, const std::string& name) {
  if (name.size() > BTRFS_PATH_NAME_MAX)
    return false;
  ::memcpy(args.name, name.c_str(), name.size() + 1);
  return true;
}

// 0: it is none.
std::uint64_t subvolume_id(int fd) {
  struct stat stat {};
  btrfs_ioctl_ino_lookup_args ask{};
  ask.objectid = kFirstInSubvolume;
  const bool is_one = is_btrfs(fd) && ::fstat(fd, &stat) == 0 && stat.st_ino == kFirstInSubvolume;
  return is_one && ::ioctl(fd, BTRFS_IOC_INO_LOOKUP, &ask) == 0 ? ask.treeid : 0;
}

bool limit_subvolume(int fd, std::int64_t mb) {
  const std::uint64_t id = subvolume_id(fd);
  if (id == 0)
    return false;
  btrfs_ioctl_qgroup_limit_args args{};
  args.qgroupid = id;
  args.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  args.lim.max_rfer = static_cast<std::uint64_t>(mb) << 20;
  return ::ioctl(fd, BTRFS_IOC_QGROUP_LIMIT, &args) == 0;  // ENOTCONN: quotas are off
}

// Of the inode, so that those of jobs that run together differ.
std::uint32_t project_of(int fd) {
  constexpr std::uint32_t kOurs = 0x4c000000, kBelow = 0x00ffffff;
  struct stat stat {};
  return ::fstat(fd, &stat) == 0 ? kOurs | (static_cast<std::uint32_t>(stat.st_ino) & kBelow) : 0;
}

bool set_project_limit(int fd, std::uint32_t project, std::int64_t mb) {
  if_dqblk limit{};
  limit.dqb_bhardlimit = static_cast<std::uint64_t>(mb) << 10;  // blocks of 1 KiB
  limit.dqb_bsoftlimit = limit.dqb_bhardlimit;
  limit.dqb_valid = QIF_BLIMITS;
  return ::syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, kProjectQuota), project, &limit) == 0;
}

// What is made inside belongs to the project, too.
bool limit_project(int fd, std::int64_t mb) {
  fsxattr marks{};
  const std::uint32_t project = project_of(fd);
  if (project == 0 || ::ioctl(fd, FS_IOC_FSGETXATTR, &marks) != 0 || !set_project_limit(fd, project, mb))
    return false;
  marks.fsx_projid = project;
  marks.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  return ::ioctl(fd, FS_IOC_FSSETXATTR, &marks) == 0;
}

Result<void> make_directory(int directory, const std::string& name) {
  btrfs_ioctl_vol_args args{};
  if (is_btrfs(directory) && name_into(args, name) && ::ioctl(directory, BTRFS_IOC_SUBVOL_CREATE, &args) == 0)
    return {};
  if (::mkdirat(directory, name.c_str(), 0700) == 0)
    return {};
  const int why = errno;
  Error error = os_error("cannot make " + name);
  if (why == EEXIST)
    error.code = Errc::kConflict;
  return error;
}

}  // namespace

Result<ScratchLimit> make_scratch(int directory, const std::string& name, std::int64_t mb) {
  TRY(make_directory(directory, name));
  const int fd = open_inside(directory, name);
  if (fd < 0 || ::fchmod(fd, 0700) != 0) {
    const Error error = os_error(name);
    if (fd >= 0)
      ::close(fd);
    return error;
  }
  ScratchLimit held = ScratchLimit::kNone;
  if (mb > 0)
    held = limit_subvolume(fd, mb) ? ScratchLimit::kSubvolume
           : limit_project(fd, mb) ? ScratchLimit::kProject
                                   : ScratchLimit::kNone;
  ::close(fd);
  return held;
}

bool drop_scratch(int directory, const std::string& name) {
  const int fd = open_inside(directory, name);
  if (fd < 0)
    return errno == ENOENT;
  const std::uint64_t id = subvolume_id(fd);
  fsxattr marks{};
  if (id == 0 && ::ioctl(fd, FS_IOC_FSGETXATTR, &marks) == 0 && marks.fsx_projid != 0 &&
      marks.fsx_projid == project_of(fd))
    set_project_limit(fd, marks.fsx_projid, 0);
  ::close(fd);
  btrfs_ioctl_vol_args args{};
  if (id == 0 || !name_into(args, name) || ::ioctl(directory, BTRFS_IOC_SNAP_DESTROY, &args) != 0)
    return false;
  // Later kernels do it by themselves, and those that cannot yet keep a row that says zero.
  btrfs_ioctl_qgroup_create_args group{};
  group.qgroupid = id;
  ::ioctl(directory, BTRFS_IOC_QGROUP_CREATE, &group);
  return true;
}

Result<ScratchLimit> try_scratch_limit(int directory) {
  constexpr std::int64_t kTrialMb = 1;
  if (!drop_scratch(directory, kTrial))
    ::unlinkat(directory, kTrial, AT_REMOVEDIR);
  const auto made = make_scratch(directory, kTrial, kTrialMb);
  if (!drop_scratch(directory, kTrial))
    ::unlinkat(directory, kTrial, AT_REMOVEDIR);
  return made;
}

}  // namespace lockstep
