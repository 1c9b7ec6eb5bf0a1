#include "io/local/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {

namespace {

constexpr int kLinksMax = 40;
constexpr std::size_t kReadMax = 1 << 20;
constexpr unsigned kOthersWrite = S_IWGRP | S_IWOTH;

// A name in a folder leads nowhere else.
void check_name(const std::string& name) {
  CHECK(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos, name);
}

bool ours_or_roots(const struct stat& found) { return found.st_uid == 0 || found.st_uid == geteuid(); }

// What keeps us from trusting a directory on the way: its owner, or others, could exchange what lies in it.
Result<void> trusted(const struct stat& found, const std::string& path) {
  if (!S_ISDIR(found.st_mode))
    return denied(path + " is not a directory");
  if (!ours_or_roots(found))
    return denied(
        format("{} belongs to user {}, who could exchange what lies in it: use another directory, or give "
               "that one to user {}",
               path, found.st_uid, geteuid()));
  if ((found.st_mode & kOthersWrite) != 0 && (found.st_mode & S_ISVTX) == 0)
    return denied(format("others may write to {}, and could exchange what lies in it: chmod go-w {}", path, path));
  return {};
}

Result<void> is_ours(const struct stat& found, const std::string& path) {
  if (S_ISLNK(found.st_mode))
    return denied(path + " is a symbolic link: name the directory itself");
  if (!S_ISDIR(found.st_mode))
    return denied(path + " is not a directory");
  if (found.st_uid != geteuid())
    return denied(format("{} belongs to user {}, not to user {}: use another directory, or run this as its owner", path,
                         found.st_uid, geteuid()));
  return {};
}

Result<void> write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR)
      return os_error("cannot write " + path);
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  }
  return {};
}

}  // namespace

// One walk from the root to a directory.
class PathWalk {
 public:
  PathWalk(const std::string& path, std::optional<unsigned> make) : whole_(path), make_(make) {
    put_first(path.starts_with('/') ? path : absolute_path(path));
  }
  ~PathWalk() {
    if (at_ >= 0)
      ::close(at_);
  }

  bool made_last() const { return made_last_; }

  Result<Folder> walk() {
    TRY(to_root());
    while (!left_.empty()) {
      const std::string name = left_.front();
      left_.pop_front();
      if (!name.empty() && name != ".")
        TRY(enter(name));
    }
    struct stat found {};
    const int fd = ::openat(at_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
      return os_error("cannot open " + whole_);
    CHECK(links_ <= kLinksMax);
    Folder folder(whole_, fd);
    if (::fstat(fd, &found) != 0)
      return os_error(whole_);
    TRY(is_ours(found, whole_));
    return folder;
  }

 private:
  void put_first(const std::string& path) {
    const auto words = split(path, '/');
    left_.insert(left_.begin(), words.begin(), words.end());
  }

  bool last() const {
    return std::all_of(left_.begin(), left_.end(), [](const auto& name) { return name.empty() || name == "."; });
  }

  void move_to(int fd) {
    CHECK(fd >= 0 && fd != at_);
    if (at_ >= 0)
      ::close(at_);
    at_ = fd;
  }

  Result<void> to_root() {
    const int root = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
      return os_error("/");
    move_to(root);
    here_.clear();
    return {};
  }

  Result<void> enter(const std::string& name) {
    const std::string path = here_ + "/" + name;
    int fd = ::openat(at_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make_) {
      TRY(make(name, path));
      fd = ::openat(at_, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0)
      return errno == ENOENT ? not_found(path + " is not there") : os_error(path);
    struct stat found {};
    const bool known = ::fstat(fd, &found) == 0;
    const auto good = !known                              ? Result<void>(os_error(path))
                      : S_ISLNK(found.st_mode) && !last() ? follow(fd, found, path)
                      : last()                            ? is_ours(found, path)
                                                          : trusted(found, path);
    if (!good || S_ISLNK(found.st_mode)) {
      ::close(fd);
      return good;
    }
    move_to(fd);
    here_ = path;
    return {};
  }

  Result<void> make(const std::string& name, const std::string& path) {
    CHECK(make_ && at_ >= 0);
    const unsigned mode = last() ? *make_ : 0755;
    if (::mkdirat(at_, name.c_str(), 0700) != 0)
      return errno == EEXIST ? Result<void>() : os_error("cannot make directory " + path);
    made_last_ = last();
    const int fd = ::openat(at_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat found {};
    const bool done = fd >= 0 && ::fstat(fd, &found) == 0 && found.st_uid == geteuid() && ::fchmod(fd, mode) == 0;
    const Error error = os_error("cannot make directory " + path);
    if (fd >= 0)
      ::close(fd);
    return done ? Result<void>() : error;
  }

  // A link that root or we made leads where root or we meant; /var/run is one.
  Result<void> follow(int link, const struct stat& found, const std::string& path) {
    if (!ours_or_roots(found))
      return denied(format("{} is a symbolic link that user {} made: name the directory itself", path, found.st_uid));
    char target[PATH_MAX];
    const ssize_t n = ::readlinkat(link, "", target, sizeof target);
    if (n <= 0 || n == static_cast<ssize_t>(sizeof target) || ++links_ > kLinksMax)
      return denied(path + " is a symbolic link that leads nowhere");
    const std::string to(target, static_cast<std::size_t>(n));
    put_first(to);
    return to[0] == '/' ? to_root() : Result<void>();
  }

  std::string whole_, here_;
  std::optional<unsigned> make_;
  std::deque<std::string> left_;
  int at_ = -1;
  int links_ = 0;
  bool made_last_ = false;
};

Result<Folder> Folder::open(const std::string& path) { return PathWalk(path, {}).walk(); }
Result<Folder> Folder::make(const std::string& path, unsigned mode, bool* made) {
  PathWalk walk(path, mode);
  auto folder = walk.walk();
  if (made)
    *made = walk.made_last();
  return folder;
}

std::string Folder::real_path() const {
  char path[PATH_MAX];
  const ssize_t n = ::readlink(format("/proc/self/fd/{}", fd_).c_str(), path, sizeof path);
  return n <= 0 ? path_ : std::string(path, static_cast<std::size_t>(n));
}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

Folder::~Folder() {
  if (fd_ >= 0)
    ::close(fd_);
}

Result<Folder> Folder::folder(const std::string& name, unsigned mode) const {
  check_name(name);
  const std::string path = path_ + "/" + name;
  if (::mkdirat(fd_, name.c_str(), 0700) != 0 && errno != EEXIST)
    return os_error("cannot make directory " + path);
  const int fd = ::openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ELOOP || errno == ENOTDIR ? denied(path + " is not a directory of ours") : os_error(path);
  Folder made(path, fd);
  struct stat found {};
  if (::fstat(fd, &found) != 0)
    return os_error(path);
  TRY(is_ours(found, path));
  if ((found.st_mode & 07777) != mode && ::fchmod(fd, mode) != 0)
    return os_error("cannot set the mode of " + path);
  return made;
}

Result<Folder> Folder::existing(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  const int fd = ::openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error("cannot open " + path);
  return Folder(path, fd);
}

Result<std::vector<std::string>> Folder::names() const {
  const int fd = ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!dir)
    return os_error("cannot list " + path_);
  std::vector<std::string> out;
  while (const dirent* entry = ::readdir(dir))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      out.emplace_back(entry->d_name);
  ::closedir(dir);
  std::sort(out.begin(), out.end());
  return out;
}

Result<std::string> Folder::read(const std::string& name) const {
  check_name(name);
  const std::string path = path_ + "/" + name;
  const int fd = ::openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT  ? not_found(path + " is not there")
           : errno == ELOOP ? denied(path + " is a symbolic link, which we never make")
                            : os_error("cannot read " + path);
  struct stat found {};
  std::string text;
  const bool good = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == geteuid();
  char buffer[8192];
  ssize_t n = 0;
  while (good && text.size() < kReadMax && (n = ::read(fd, buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(n));
  const Error error = os_error("cannot read " + path);
  ::close(fd);
  if (!good)
    return denied(format("{} is not a file of user {}", path, geteuid()));
  if (n < 0)
    return error;
  return text;
}

Result<void> Folder::write(const std::string& name, std::string_view text, unsigned mode) const {
  return replace(name, text, mode, false);
}

Result<void> Folder::write_durably(const std::string& name, std::string_view text, unsigned mode) const {
  TRY(replace(name, text, mode, true));
  return ::fsync(fd_) == 0 ? Result<void>() : os_error("cannot write " + path_);
}

Result<void> Folder::replace(const std::string& name, std::string_view text, unsigned mode, bool durably) const {
  check_name(name);
  CHECK(fd_ >= 0 && (mode & ~07777U) == 0, format("{} with mode {:o}", name, mode));
  const std::string fresh = name + ".new", path = path_ + "/" + name;
  ::unlinkat(fd_, fresh.c_str(), 0);  // of one that was interrupted
  const int fd = ::openat(fd_, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return os_error("cannot write " + path + ".new");
  auto done = write_all(fd, text, path + ".new");
  if (done && ::fchmod(fd, mode) != 0)
    done = os_error("cannot set the mode of " + path);
  if (done && durably && ::fsync(fd) != 0)
    done = os_error("cannot write " + path);
  ::close(fd);
  if (done && ::renameat(fd_, fresh.c_str(), fd_, name.c_str()) != 0)
    done = os_error("cannot replace " + path);
  if (!done)
    ::unlinkat(fd_, fresh.c_str(), 0);
  return done;
}

Result<void> Folder::keep(const std::string& name, std::string_view text, unsigned mode) const {
  struct stat found {};
  if (const auto old = read(name);
      old && *old == text && ::fstatat(fd_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0)
    if ((found.st_mode & 07777) == mode || ::fchmodat(fd_, name.c_str(), mode, 0) == 0)
      return {};
  return write(name, text, mode);
}

bool in_memory(const Folder& folder) {
  struct statfs found {};
  return ::fstatfs(folder.fd(), &found) == 0 && (found.f_type == TMPFS_MAGIC || found.f_type == RAMFS_MAGIC);
}

std::string absolute_path(const std::string& path) {
  std::string whole = path;
  char cwd[PATH_MAX];
  if ((whole.empty() || whole[0] != '/') && ::getcwd(cwd, sizeof cwd))
    whole = std::string(cwd) + "/" + whole;
  std::string out;
  for (const auto& word : split(whole, '/')) {
    if (!word.empty() && word != ".")
      out += "/" + word;
    // Behind a link ".." leads elsewhere than the words say, and what lies before it may go: the file system is asked.
    char real[PATH_MAX];
    if (word == ".." && ::realpath(out.c_str(), real))
      out = std::string_view(real) == "/" ? "" : real;
  }
  return out.empty() ? "/" : out;
}

}  // namespace lockstep
