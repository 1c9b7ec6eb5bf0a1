#include "shim/tree_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr int kDepthMost = 200;  // of directories within each other: two descriptors each

class OwnFd {
 public:
  explicit OwnFd(int fd = -1) : fd_(fd) {}
  OwnFd(OwnFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnFd& operator=(OwnFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnFd() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int close() { return ::close(std::exchange(fd_, -1)); }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Whether trying again may help decides the kind.
Error failed_at(const std::string& path, int error = errno) {
  Errc code = Errc::kUnavailable;
  switch (error) {
    case EACCES:
    case EPERM: code = Errc::kDenied; break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: code = Errc::kExhausted; break;
    case ENAMETOOLONG:
    case ELOOP:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case EINVAL:
    case EXDEV: code = Errc::kInvalid; break;
    default: break;
  }
  const char* words = error == ELOOP ? "a symbolic link leads out of where it may be" : ::strerror(error);
  return {code, format("{}: {}", path, words), {}};
}

Error lasting(const std::string& path, std::string_view what) {
  return {Errc::kInvalid, format("{}: {}", path, what), {}};
}

Error changed(const std::string& path) {
  return {Errc::kUnavailable, path + ": it was changed while it was copied", {}};
}

std::string joined_path(const std::string& dir, std::string_view name) {
  return dir.ends_with('/') ? format("{}{}", dir, name) : format("{}/{}", dir, name);
}

std::string_view last_name(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1);
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names = split(path, '/');
  std::erase_if(names, [](const std::string& name) { return name.empty() || name == "."; });
  return names;
}

bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

// Which mount a file lies on; where the kernel does not tell, its device.
std::uint64_t mount_of(int fd) {
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &facts) != 0)
    return 0;
#ifdef STATX_MNT_ID
  if ((facts.stx_mask & STATX_MNT_ID) != 0)
    return facts.stx_mnt_id;
#endif
  return std::uint64_t{facts.stx_dev_major} << 32 | facts.stx_dev_minor;
}

// Bits that would give others something are kept only where the copy belongs to the same user.
mode_t mode_to_keep(const struct stat& from) {
  const bool same_owner = from.st_uid == ::geteuid();
  return from.st_mode & (same_owner ? 07777 : 01777);
}

Result<OwnFd> open_directory(const std::string& path) {
  OwnFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid())
    return failed_at(path);
  return fd;
}

}  // namespace

std::string part_name(std::string_view name, const struct stat& facts) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](const void* bytes, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  };
  add(name.data(), name.size());
  for (const std::int64_t number : {std::int64_t{facts.st_size}, std::int64_t{facts.st_mtim.tv_sec},
                                    std::int64_t{facts.st_mtim.tv_nsec}, static_cast<std::int64_t>(facts.st_ino)})
    add(&number, sizeof number);
  std::string out = ".lockstep-part-";
  for (int shift = 60; shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[hash >> shift & 15]);
  return out;
}

struct TreeCopy::Walk {
  TreeCopy& copy;
  bool measures = false, last_try = false;
  std::uint64_t mount = 0;
  struct stat target {};  // the directory that it is all copied to
  CopyCount found;
  std::string piece = {};

  // The first directory a task names, and what is asked for in it: "" = the directory itself.
  struct Start {
    OwnFd dir;
    std::string name, path;
  };

  // Below a directory of ours no name on the way may be a link.
  static Result<OwnFd> descend(OwnFd at, std::string path, const std::vector<std::string>& names, bool make,
                               std::vector<std::string>* made) {
    for (const std::string& name : names) {
      path = joined_path(path, name);
      if (make && ::mkdirat(at.get(), name.c_str(), 0777) == 0) {
        if (made)
          made->push_back(path);
      } else if (make && errno != EEXIST) {
        return failed_at(path);
      }
      OwnFd next(::openat(at.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!next.valid())
        return failed_at(path);
      at = std::move(next);
    }
    return at;
  }

  static Result<Start> open_source(const CopyTask& task) {
    Start out;
    out.path = task.from_below.empty() ? task.from : joined_path(task.from_below, task.from);
    if (!task.from_below.empty()) {
      auto names = names_in(task.from);
      OwnFd top = TRY(open_directory(task.from_below));
      if (names.empty()) {
        out.dir = std::move(top);
        return out;
      }
      out.name = names.back();
      names.pop_back();
      auto dir = descend(std::move(top), task.from_below, names, false, nullptr);
      if (!dir && dir.error().code == Errc::kUnavailable)
        return Error{Errc::kNotFound, dir.error().message, {}};
      out.dir = TRY(std::move(dir));
      struct stat facts {};
      if (::fstatat(out.dir.get(), out.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return Error{Errc::kNotFound, out.path + ": there is no such file or directory", {}};
      return out;
    }
    // Its user has named it, so links that lead there are followed, with his rights.
    struct stat facts {};
    if (::stat(task.from.c_str(), &facts) != 0)
      return failed_at(task.from);
    if (S_ISDIR(facts.st_mode)) {
      out.dir = TRY(open_directory(task.from));
      return out;
    }
    char real[PATH_MAX];
    if (!::realpath(task.from.c_str(), real))
      return failed_at(task.from);
    const std::string_view path(real);
    out.dir = TRY(open_directory(std::string(path.substr(0, path.rfind('/') + 1))));
    out.name = last_name(path);
    return out;
  }

  Result<void> run(const CopyTask& task) {
    Start from = TRY(open_source(task));
    if (from.name.empty())
      return tree(std::move(from.dir), from.path, task);
    struct stat facts {};
    if (::fstatat(from.dir.get(), from.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
      return failed_at(from.path);
    if (S_ISDIR(facts.st_mode)) {
      OwnFd dir(::openat(from.dir.get(), from.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!dir.valid())
        return failed_at(from.path);
      return tree(std::move(dir), from.path, task);
    }
    if (!S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode))
      return lasting(from.path, "neither a file nor a directory");
    if (measures) {
      count(facts);
      return {};
    }
    return single(from, facts, task);
  }

  void count(const struct stat& facts) {
    ++found.files;
    if (S_ISREG(facts.st_mode))
      found.bytes += facts.st_size;
  }

  Result<OwnFd> open_target(const CopyTask& task, std::vector<std::string> names, bool& made_last) {
    std::vector<std::string> made;
    const bool absolute = task.to_below.empty();
    OwnFd top = TRY(open_directory(absolute ? "/" : task.to_below));
    OwnFd at;
    if (absolute) {
      // Links on the way are the user's own choice: directories are opened as he names them.
      std::string path = "/";
      for (const std::string& name : names) {
        path = joined_path(path, name);
        if (::mkdir(path.c_str(), 0777) == 0)
          made.push_back(path);
        else if (const int why = errno; why != EEXIST && ::access(path.c_str(), X_OK) != 0)
          return errno = why, failed_at(path);
      }
      at = TRY(open_directory(path));
    } else {
      at = TRY(descend(std::move(top), task.to_below, names, true, &made));
    }
    copy.made_.insert(copy.made_.end(), made.begin(), made.end());
    const std::string whole = path_of(task, names);
    made_last = std::find(copy.made_.begin(), copy.made_.end(), whole) != copy.made_.end();
    return at;
  }
  static std::string path_of(const CopyTask& task, const std::vector<std::string>& names) {
    std::string path = task.to_below.empty() ? "/" : task.to_below;
    for (const std::string& name : names) path = joined_path(path, name);
    return path;
  }

  Result<void> tree(OwnFd from, const std::string& path, const CopyTask& task) {
    mount = mount_of(from.get());
    if (measures)
      return directory(std::move(from), path, -1, {}, 0);
    struct stat facts {};
    if (::fstat(from.get(), &facts) != 0)
      return failed_at(path);
    bool ours = false;
    OwnFd to = TRY(open_target(task, names_in(task.to), ours));
    if (::fstat(to.get(), &target) != 0)
      return failed_at(path);
    const std::string to_path = path_of(task, names_in(task.to));
    TRY(directory(std::move(from), path, to.get(), to_path, 0));
    // One that was there before keeps what it is.
    return ours ? take_facts(to.get(), facts, to_path) : Result<void>();
  }

  Result<void> single(const Start& from, const struct stat& facts, const CopyTask& task) {
    std::vector<std::string> names = names_in(task.to);
    bool into = task.to.ends_with('/') || names.empty();
    if (!into) {
      struct stat there {};
      into = ::stat(path_of(task, names).c_str(), &there) == 0 && S_ISDIR(there.st_mode);
    }
    std::string name(last_name(task.from));
    if (!into) {
      name = names.back();
      names.pop_back();
    }
    bool ours = false;
    OwnFd to = TRY(open_target(task, names, ours));
    return entry(from.dir.get(), from.name, from.path, to.get(), name, joined_path(path_of(task, names), name), facts,
                 0);
  }

  Result<void> directory(OwnFd from, const std::string& path, int to, const std::string& to_path, int depth) {
    if (depth > kDepthMost)
      return lasting(path, format("more than {} directories within each other", kDepthMost));
    const int fd = from.get();
    std::unique_ptr<DIR, CloseDir> list(::fdopendir(fd));
    if (!list)
      return failed_at(path);
    (void)from.release();
    for (;;) {
      errno = 0;
      const dirent* one = ::readdir(list.get());
      if (!one && errno != 0)
        return failed_at(path);
      if (!one)
        return {};
      const std::string name = one->d_name;
      if (name == "." || name == "..")
        continue;
      struct stat facts {};
      const std::string whole = joined_path(path, name);
      Result<void> done;
      if (::fstatat(fd, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
        done = failed_at(whole);
      else
        done = entry(fd, name, whole, to, name, to < 0 ? std::string() : joined_path(to_path, name), facts, depth);
      if (!done && !(measures ? copy.fault_ == CopyFault::kPassedBy : copy.passes_by(done.error(), last_try)))
        return done;
    }
  }

  Result<void> entry(int from, const std::string& name, const std::string& path, int to, const std::string& to_name,
                     const std::string& to_path, const struct stat& facts, int depth) {
    if (S_ISDIR(facts.st_mode))
      return subdirectory(from, name, path, to, to_name, to_path, depth);
    if (!S_ISREG(facts.st_mode) && !S_ISLNK(facts.st_mode)) {
      if (!measures)
        ++copy.passed_over_;
      return {};
    }
    if (measures) {
      count(facts);
      return {};
    }
    TRY(S_ISLNK(facts.st_mode) ? link(from, name, path, to, to_name, to_path)
                               : file(from, name, path, to, to_name, to_path));
    ++copy.done_.files;
    copy.tell_(copy.done_);
    return {};
  }

  Result<void> subdirectory(int from, const std::string& name, const std::string& path, int to,
                            const std::string& to_name, const std::string& to_path, int depth) {
    OwnFd dir(::openat(from, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir.valid())
      return failed_at(path);
    if (mount_of(dir.get()) != mount)
      return lasting(path, "another file system is mounted there: name it in an option of its own");
    if (measures)
      return directory(std::move(dir), path, -1, {}, depth + 1);
    struct stat facts {};
    if (::fstat(dir.get(), &facts) != 0)
      return failed_at(path);
    if (facts.st_dev == target.st_dev && facts.st_ino == target.st_ino)
      return lasting(path, "a directory cannot be copied into itself");
    if (::mkdirat(to, to_name.c_str(), 0700) != 0 && errno != EEXIST)
      return failed_at(to_path);
    OwnFd into(::openat(to, to_name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!into.valid())
      return errno == ENOTDIR || errno == ELOOP ? lasting(to_path, "it is there, and no directory")
                                                : failed_at(to_path);
    struct stat there {};
    const bool is_own = ::fstat(into.get(), &there) == 0 && there.st_uid == ::geteuid();
    if (is_own && (there.st_mode & 0700) != 0700)
      ::fchmod(into.get(), (there.st_mode & 07777) | 0700);  // of an earlier try; it gets its own mode below
    TRY(directory(std::move(dir), path, into.get(), to_path, depth + 1));
    return is_own ? take_facts(into.get(), facts, to_path) : Result<void>();  // another's keeps what it is
  }

  static Result<void> take_facts(int fd, const struct stat& facts, const std::string& path) {
    const timespec times[2] = {facts.st_atim, facts.st_mtim};
    if (::fchmod(fd, mode_to_keep(facts)) != 0 || ::futimens(fd, times) != 0)
      return failed_at(path);
    return {};
  }

  // Whether a file or a link may take that name: a rename would put it in the place of anything.
  static Result<void> check_replaced(int to, const std::string& name, const std::string& path) {
    struct stat there {};
    if (::fstatat(to, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || S_ISREG(there.st_mode) ||
        S_ISLNK(there.st_mode))
      return {};
    return lasting(path, S_ISDIR(there.st_mode) ? "a directory is there" : "a device, a pipe or a socket is there");
  }

  static Result<void> link(int from, const std::string& name, const std::string& path, int to,
                           const std::string& to_name, const std::string& to_path) {
    char target[PATH_MAX], there[PATH_MAX];
    const ssize_t size = ::readlinkat(from, name.c_str(), target, sizeof target - 1);
    if (size < 0)
      return failed_at(path);
    target[size] = '\0';
    struct stat facts {};
    if (::fstatat(from, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
      return failed_at(path);
    const ssize_t has = ::readlinkat(to, to_name.c_str(), there, sizeof there);
    if (has == size && ::memcmp(there, target, static_cast<std::size_t>(size)) == 0)
      return {};
    TRY(check_replaced(to, to_name, to_path));
    const std::string part = part_name(to_name, facts);
    ::unlinkat(to, part.c_str(), 0);
    if (::symlinkat(target, to, part.c_str()) != 0)
      return failed_at(to_path);
    const timespec times[2] = {facts.st_atim, facts.st_mtim};
    ::utimensat(to, part.c_str(), times, AT_SYMLINK_NOFOLLOW);
    if (::renameat(to, part.c_str(), to, to_name.c_str()) != 0) {
      const Error error = failed_at(to_path);
      ::unlinkat(to, part.c_str(), 0);
      return error;
    }
    return {};
  }

  Result<void> file(int from, const std::string& name, const std::string& path, int to, const std::string& to_name,
                    const std::string& to_path) {
    const OwnFd source(::openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat facts {};
    if (!source.valid() || ::fstat(source.get(), &facts) != 0)
      return failed_at(path);
    if (!S_ISREG(facts.st_mode))
      return changed(path);
    TRY(check_replaced(to, to_name, to_path));
    struct stat there {};
    if (::fstatat(to, to_name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(there.st_mode) &&
        there.st_size == facts.st_size && same_time(there.st_mtim, facts.st_mtim)) {
      copy.done_.bytes += facts.st_size;
      return {};
    }
    const std::string part = part_name(to_name, facts);
    const std::int64_t before = copy.done_.bytes;
    auto copied = whole_file(source.get(), facts, path, to, part, to_path);
    if (copied && ::renameat(to, part.c_str(), to, to_name.c_str()) != 0)
      copied = failed_at(to_path);
    if (copied)
      return {};
    copy.done_.bytes = before;
    if (copied.error().code != Errc::kUnavailable)
      ::unlinkat(to, part.c_str(), 0);
    return copied;
  }

  Result<void> whole_file(int source, const struct stat& facts, const std::string& path, int to,
                          const std::string& part, const std::string& to_path) {
    OwnFd target(::openat(to, part.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    struct stat begun {};
    if (!target.valid() || ::fstat(target.get(), &begun) != 0)
      return failed_at(to_path);
    // Others may write to the directory, too: what one of them made there he can read.
    if (!S_ISREG(begun.st_mode) || begun.st_nlink != 1 || begun.st_uid != ::geteuid())
      return lasting(to_path, format("{} is in the way", part));
    // What was begun goes on, a piece before its end: that one may not have been whole.
    off_t at = std::min(begun.st_size, facts.st_size) / static_cast<off_t>(kPieceBytes);
    at = std::max<off_t>(0, at - 1) * static_cast<off_t>(kPieceBytes);
    copy.done_.bytes += at;
    TRY(data(source, target.get(), at, facts.st_size, path, to_path));
    if (::ftruncate(target.get(), facts.st_size) != 0)
      return failed_at(to_path);
    struct stat after {};
    if (::fstat(source, &after) != 0)
      return failed_at(path);
    if (after.st_size != facts.st_size || !same_time(after.st_mtim, facts.st_mtim)) {
      ::unlinkat(to, part.c_str(), 0);
      return changed(path);
    }
    TRY(take_facts(target.get(), facts, to_path));
    if (::fstat(target.get(), &after) != 0 || after.st_size != facts.st_size)
      return Error{Errc::kUnavailable, to_path + ": it did not become as large as it is", {}};
    if (target.close() != 0)  // file servers say here what they could not store
      return failed_at(to_path);
    return {};
  }

  // The parts of a file that are no holes.
  Result<void> data(int source, int target, off_t at, off_t end, const std::string& path, const std::string& to_path) {
    while (at < end) {
      const off_t begin = ::lseek(source, at, SEEK_DATA);
      if (begin < 0 && errno != ENXIO && errno != EINVAL)
        return failed_at(path);
      const bool no_more = begin < 0 && errno == ENXIO;
      const off_t from = no_more ? end : std::min(end, begin < 0 ? at : begin);
      off_t until = end;
      if (from < end && begin >= 0)
        until = ::lseek(source, from, SEEK_HOLE);
      if (until < 0)
        return failed_at(path);
      until = std::min(end, until);
      copy.done_.bytes += from - at;
      TRY(stretch(source, target, from, until, path, to_path));
      at = std::max(from, until);
    }
    return {};
  }

  Result<void> stretch(int source, int target, off_t at, off_t end, const std::string& path,
                       const std::string& to_path) {
    piece.resize(kPieceBytes);
    while (at < end) {
      const std::size_t wanted = std::min<std::size_t>(piece.size(), static_cast<std::size_t>(end - at));
      const ssize_t got = ::pread(source, piece.data(), wanted, at);
      if (got < 0 && errno == EINTR)
        continue;
      if (got < 0)
        return failed_at(path);
      if (got == 0)
        return changed(path);
      for (ssize_t put = 0; put < got;) {
        const ssize_t n =
            ::pwrite(target, piece.data() + put, static_cast<std::size_t>(got - put), at + static_cast<off_t>(put));
        if (n < 0 && errno != EINTR)
          return failed_at(to_path);
        put += std::max<ssize_t>(0, n);
      }
      at += got;
      copy.done_.bytes += got;
      copy.tell_(copy.done_);
    }
    return {};
  }
};

bool TreeCopy::passes_by(const Error& error, bool last_try) {
  if (fault_ == CopyFault::kEnds || (error.code == Errc::kUnavailable && !last_try))
    return false;
  if (left_behind_++ == 0)
    first_left_ = error.message;
  return true;
}

Result<CopyCount> TreeCopy::measure(const CopyTask& task) {
  Walk walk{*this, true, false, 0, {}};
  TRY(walk.run(task));
  return walk.found;
}

Result<void> TreeCopy::copy(const CopyTask& task, bool last_try) {
  const CopyCount before = done_;
  const std::int64_t left_before = left_behind_;
  Walk walk{*this, false, last_try, 0, {}};
  auto copied = walk.run(task);
  if (copied || passes_by(copied.error(), last_try))
    return {};
  done_ = before;  // another try counts what is there again
  left_behind_ = left_before;
  return copied;
}

}  // namespace lockstep
