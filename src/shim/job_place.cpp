#include "shim/job_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/plain_file.h"
#include "base/text.h"
#include "model/own_tmp.h"
#include "shim/job_place_files.h"
#include "shim/job_place_mounts.h"
#include "shim/remove_tree.h"
#include "shim/scratch_limit.h"

namespace lockstep {
namespace {

constexpr std::size_t kPlaceMax = 1 << 20;
constexpr const char* kNoteFile = "place";
constexpr const char* kLockFile = "lock";
constexpr const char* kNamespaceFile = "ns";
constexpr const char* kIpcFile = "ipc";
constexpr const char* kPasswdFile = "passwd";
constexpr const char* kGroupFile = "group";
constexpr const char* kMadeFile = "made";    // all of SCRATCH/12-1 is there
constexpr const char* kReadyFile = "ready";  // all of the namespace
constexpr const char* kUserFolder = "scratch";
constexpr const char* kClosedFolder = "private";
constexpr int kUnmountsMax = 64;

class Opened {
 public:
  explicit Opened(int fd) : fd_(fd) {}
  ~Opened() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  Opened(Opened&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Opened open_folder(int above, const char* name) {
  return Opened(::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

Result<void> write_whole(int folder, const char* name, const std::string& text, mode_t mode) {
  const Opened fd(::openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid() || ::fchmod(fd.get(), mode) != 0)
    return os_error(name);
  const ssize_t n = ::write(fd.get(), text.data(), text.size());
  if (n == static_cast<ssize_t>(text.size()))
    return {};
  if (n >= 0)
    errno = ENOSPC;
  return os_error(name);
}

Result<Opened> make_folder(int above, const char* name, mode_t mode) {
  if (::mkdirat(above, name, 0700) != 0 && errno != EEXIST)
    return os_error(format("cannot make {}", name));
  Opened fd = open_folder(above, name);
  if (!fd.valid() || ::fchmod(fd.get(), mode) != 0)
    return os_error(name);
  return fd;
}

void unmount_all(const std::string& file) {
  for (int i = 0; i < kUnmountsMax && ::umount2(file.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0; ++i) {}
}

bool holds_namespace(int folder, const char* file) {
  const Opened fd(::openat(folder, file, O_PATH | O_CLOEXEC));
  struct statfs found {};
  return fd.valid() && ::fstatfs(fd.get(), &found) == 0 && found.f_type == NSFS_MAGIC;
}

std::string folder_above(const std::string& path) { return path.substr(0, std::max<std::size_t>(1, path.rfind('/'))); }
std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// SCRATCH/12-1 as others may pass through it, and nobody may change it.
Result<void> make_directories(const JobPlace& place) {
  const Opened above = open_folder(AT_FDCWD, folder_above(place.scratch).c_str());
  if (!above.valid())
    return os_error(folder_above(place.scratch));
  const auto made = make_scratch(above.get(), last_part(place.scratch), place.scratch_mb);
  if (!made.ok() && made.error().code != Errc::kConflict)
    return Error{made.error().code,
                 format("scratch of the job in {}: {}", folder_above(place.scratch), made.error().message),
                 {}};
  const Opened own = open_folder(above.get(), last_part(place.scratch).c_str());
  if (!own.valid() || ::fchmod(own.get(), 0711) != 0)
    return os_error(place.scratch);
  const Opened user = TRY(make_folder(own.get(), kUserFolder, 0700));
  if (::geteuid() == 0 && ::fchown(user.get(), place.uid, place.gid) != 0)
    return os_error(place.scratch);
  if (!place.private_tmp)
    return {};
  const Opened closed = TRY(make_folder(own.get(), kClosedFolder, 0700));
  for (const char* name : {"tmp", "var_tmp"}) TRY(make_folder(closed.get(), name, 01777));
  return {};
}

Result<void> add_lines(int folder, const char* file, const char* node_file, const std::string& lines) {
  const auto text = read_plain(node_file, Links::kFollowed);
  std::string whole = text ? *text : std::string();
  if (!whole.empty() && !whole.ends_with('\n'))
    whole += '\n';
  return write_whole(folder, file, whole + lines, 0644);
}

Result<void> make_namespace(int fd, const std::string& folder, const JobPlace& place) {
  PlaceSources sources;
  const NodeNames names;
  if (const std::string line = missing_passwd_line(place, names); !line.empty()) {
    TRY(add_lines(fd, kPasswdFile, "/etc/passwd", line));
    TRY(add_lines(fd, kGroupFile, "/etc/group", missing_group_lines(place, names)));
    sources.passwd = format("{}/{}", folder, kPasswdFile);
    sources.group = format("{}/{}", folder, kGroupFile);
  }
  if (place.private_tmp) {
    sources.tmp = format("{}/{}/tmp", place.scratch, kClosedFolder);
    sources.var_tmp = format("{}/{}/var_tmp", place.scratch, kClosedFolder);
  }
  const PlaceFiles files{format("{}/{}", folder, kNamespaceFile), format("{}/{}", folder, kIpcFile)};
  for (const auto& [file, name] : {std::pair(files.mounts, kNamespaceFile), std::pair(files.ipc, kIpcFile)}) {
    unmount_all(file);  // one that was begun
    TRY(write_whole(fd, name, "", 0600));
  }
  TRY(make_place_namespace(place, sources, files));
  return write_whole(fd, kReadyFile, "", 0600);
}

Result<void> make_place(int fd, const std::string& folder, const JobPlace& place) {
  if (::faccessat(fd, kMadeFile, F_OK, 0) != 0) {
    TRY(make_directories(place));
    TRY(write_whole(fd, kMadeFile, "", 0600));
  }
  const bool is_ready =
      ::faccessat(fd, kReadyFile, F_OK, 0) == 0 && holds_namespace(fd, kNamespaceFile) && holds_namespace(fd, kIpcFile);
  return place.apart && !is_ready ? make_namespace(fd, folder, place) : Result<void>();
}

// NUL-separated NAME=value, as a process's environment is.
void put_pair(std::string& out, const char* name, const std::string& value) {
  if (!value.empty())
    out.append(name).append("=").append(value.c_str()).push_back('\0');
}
void put_pair(std::string& out, const char* name, std::int64_t value) {
  if (value != 0)
    put_pair(out, name, std::to_string(value));
}

template <class T>
void take_number(T& into, const std::string& value) {
  into = static_cast<T>(parse_int(value).value_or(0));
}

}  // namespace

std::string encode_job_place(const JobPlace& place) {
  std::string out;
  put_pair(out, "uid", place.uid);
  put_pair(out, "gid", place.gid);
  for (const std::uint32_t group : place.groups) put_pair(out, "group", std::to_string(group));
  put_pair(out, "scratch", place.scratch);
  put_pair(out, "scratch_mb", place.scratch_mb);
  put_pair(out, "apart", place.apart);
  put_pair(out, "private_tmp", place.private_tmp);
  put_pair(out, "tmpfs_mb", place.tmpfs_mb);
  put_pair(out, "memory_mb", place.memory_mb);
  put_pair(out, "work_dir", place.work_dir);
  for (const std::string& path : place.shown) put_pair(out, "shown", path);
  put_pair(out, "user_name", place.user_name);
  put_pair(out, "user_home", place.user_home);
  put_pair(out, "user_shell", place.user_shell);
  return out;
}

Result<JobPlace> decode_job_place(std::string_view text) {
  JobPlace place;
  for (const std::string& line : split(std::string(text), '\0')) {
    const auto mark = line.find('=');
    if (mark == line.npos)
      continue;
    const std::string name = line.substr(0, mark), value = line.substr(mark + 1);
    if (name == "uid")
      take_number(place.uid, value);
    else if (name == "gid")
      take_number(place.gid, value);
    else if (name == "group")
      take_number(place.groups.emplace_back(), value);
    else if (name == "scratch")
      place.scratch = value;
    else if (name == "scratch_mb")
      take_number(place.scratch_mb, value);
    else if (name == "apart")
      take_number(place.apart, value);
    else if (name == "private_tmp")
      take_number(place.private_tmp, value);
    else if (name == "tmpfs_mb")
      take_number(place.tmpfs_mb, value);
    else if (name == "memory_mb")
      take_number(place.memory_mb, value);
    else if (name == "work_dir")
      place.work_dir = value;
    else if (name == "shown")
      place.shown.push_back(value);
    else if (name == "user_name")
      place.user_name = value;
    else if (name == "user_home")
      place.user_home = value;
    else if (name == "user_shell")
      place.user_shell = value;
  }
  if (!place.scratch.starts_with('/') || !parse_place_name(last_part(place.scratch)))
    return Error{Errc::kCorrupt, "the note of the job's place names no directory for scratch", {}};
  return place;
}

std::string place_name(JobId job, AttemptNo attempt) { return format("{}-{}", job.value, attempt); }

std::optional<std::pair<JobId, AttemptNo>> parse_place_name(std::string_view name) {
  const auto script = parse_work_id(std::string(name) + "-batch");
  if (!script || !is_script(*script))
    return std::nullopt;
  return std::pair{script->job, script->attempt};
}

Result<void> note_job_place(const std::string& folder, const JobPlace& place) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error(folder);
  const Opened fd = open_folder(AT_FDCWD, folder.c_str());
  if (!fd.valid())
    return os_error(folder);
  if (::faccessat(fd.get(), kNoteFile, F_OK, 0) == 0)
    return {};
  constexpr const char* kFresh = "place.new";
  TRY(write_whole(fd.get(), kFresh, encode_job_place(place), 0600));
  return ::renameat(fd.get(), kFresh, fd.get(), kNoteFile) == 0 ? Result<void>() : os_error(folder);
}

Result<OpenPlace> open_job_place(const std::string& folder) {
  OpenPlace out;
  const Opened fd = open_folder(AT_FDCWD, folder.c_str());
  if (!fd.valid())
    return errno == ENOENT ? Result<OpenPlace>(out) : Result<OpenPlace>(os_error(folder));
  const JobPlace place =
      TRY(decode_job_place(TRY(read_plain(format("{}/{}", folder, kNoteFile), Links::kRefused, kPlaceMax))));
  const Opened lock(::openat(fd.get(), kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!lock.valid() || ::flock(lock.get(), LOCK_EX) != 0)
    return os_error(format("{}/{}", folder, kLockFile));
  TRY(make_place(fd.get(), folder, place));
  out.scratch = format("{}/{}", place.scratch, kUserFolder);
  if (!place.apart)
    return out;
  out.mounts = ::openat(fd.get(), kNamespaceFile, O_RDONLY | O_CLOEXEC);
  out.ipc = ::openat(fd.get(), kIpcFile, O_RDONLY | O_CLOEXEC);
  out.outside = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (out.mounts < 0 || out.ipc < 0 || out.outside < 0)
    return os_error(folder);
  return out;
}

Result<void> remove_job_place(const std::string& folder, const std::string& scratch) {
  CHECK(parse_place_name(last_part(folder)) && last_part(folder) == last_part(scratch),
        format("{} and {} are of no job", folder, scratch));
  for (const char* file : {kNamespaceFile, kIpcFile}) unmount_all(format("{}/{}", folder, file));
  const Opened above = open_folder(AT_FDCWD, folder_above(scratch).c_str());
  if (above.valid() && !drop_scratch(above.get(), last_part(scratch)))
    TRY(remove_tree(above.get(), last_part(scratch)));
  // Last, since by it whoever comes after us knows that there was something.
  const Opened places = open_folder(AT_FDCWD, folder_above(folder).c_str());
  return places.valid() ? remove_tree(places.get(), last_part(folder)) : Result<void>();
}

int run_remove_place(const char* folder, const char* scratch) {
  constexpr int kIdle = 3 << 13;  // of ioprio_set(2): when nobody else wants the disk
  ::setpriority(PRIO_PROCESS, 0, 19);
  ::syscall(SYS_ioprio_set, 1 /* this process */, 0, kIdle);
  const std::string name = last_part(folder);
  if (!parse_place_name(name) || name != last_part(scratch)) {
    ::fprintf(stderr, "lockstep-shim: %s and %s are of no job\n", folder, scratch);
    return 2;
  }
  const auto removed = remove_job_place(folder, scratch);
  if (!removed.ok())
    ::fprintf(stderr, "lockstep-shim: what job %s left: %s\n", name.c_str(), removed.error().message.c_str());
  return removed.ok() ? 0 : 1;
}

void tell_place(const OpenPlace& place, std::vector<std::string>& env) {
  std::erase_if(env, [](const std::string& line) { return line.starts_with(std::string(kTmpfsVariable) + "="); });
  if (place.scratch.empty())
    return;
  for (const char* name : {"LOCKSTEP_SCRATCH", "SLURM_TMPDIR"}) env.push_back(format("{}={}", name, place.scratch));
}

}  // namespace lockstep
