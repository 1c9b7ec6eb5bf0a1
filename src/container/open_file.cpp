#include "container/open_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/text.h"

namespace lockstep {

OpenFile open_in_root(int root, const std::string& path, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return OpenFile(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

std::string read_in_root(int root, const std::string& path, std::size_t most) {
  const OpenFile file = open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  struct stat stat {};
  if (!file.valid() || ::fstat(file.get(), &stat) != 0 || !S_ISREG(stat.st_mode) ||
      static_cast<std::uint64_t>(stat.st_size) > most)
    return {};
  std::string text(static_cast<std::size_t>(stat.st_size), '\0');
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

Result<OpenFile> make_in_root(int root, const std::string& path, Target kind, Dangling dangling) {
  OpenFile above = open_in_root(root, "/", O_PATH | O_DIRECTORY);
  std::string so_far;
  const std::vector<std::string> names = split(path, '/');
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names[i] == ".")
      continue;
    if (names[i] == "..")
      return invalid(format("{}: a target of a mount holds no \"..\"", path));
    so_far += "/" + names[i];
    const bool last = i + 1 == names.size();
    OpenFile next = open_in_root(root, so_far, O_PATH);
    if (!next.valid() && errno == ENOENT) {
      const bool file = last && kind == Target::kFile;
      const auto make = [&] {
        return file ? ::mknodat(above.get(), names[i].c_str(), S_IFREG | 0644, 0)
                    : ::mkdirat(above.get(), names[i].c_str(), 0755);
      };
      int made = make();
      if (made != 0 && errno == EEXIST && dangling == Dangling::kReplaced &&
          ::unlinkat(above.get(), names[i].c_str(), 0) == 0)
        made = make();
      if (made != 0 && errno != EEXIST)
        return os_error(format("cannot make {} in the container", so_far));
      next = open_in_root(root, so_far, O_PATH);
    }
    if (!next.valid())
      return os_error(format("{} in the container", so_far));
    above = std::move(next);
  }
  return above;
}

Result<bool> settle_folder_in_root(int root, const std::string& path) {
  OpenFile above = open_in_root(root, "/", O_PATH | O_DIRECTORY);
  bool replaced = false;
  for (const std::string& name : split(path, '/')) {
    if (name.empty())
      continue;
    struct stat stat {};
    const bool there = ::fstatat(above.get(), name.c_str(), &stat, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(stat.st_mode)) {
      replaced = true;
      if (::unlinkat(above.get(), name.c_str(), 0) != 0)
        return os_error(format("cannot replace {} in the container", path));
    }
    if ((!there || !S_ISDIR(stat.st_mode)) && ::mkdirat(above.get(), name.c_str(), 0755) != 0)
      return os_error(format("cannot make {} in the container", path));
    above = OpenFile(::openat(above.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!above.valid())
      return os_error(format("{} in the container", path));
  }
  return replaced;
}

std::string path_in_root(const OpenFile& file, int root) {
  const auto place = [](int fd) {
    char text[4096];
    const ssize_t size = ::readlink(format("/proc/self/fd/{}", fd).c_str(), text, sizeof text);
    return std::string(text, size > 0 && size < ssize_t{sizeof text} ? static_cast<std::size_t>(size) : 0);
  };
  const std::string at = place(file.get()), top = place(root);
  if (top.empty() || !at.starts_with(top))
    return {};
  return at == top ? "/" : at[top.size()] == '/' ? at.substr(top.size()) : std::string();
}

Result<void> make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat stat {};
      if (at == path.npos || ::stat(part.c_str(), &stat) != 0)
        return os_error(part);
    }
    if (at == path.npos)
      return {};
  }
}

namespace {

constexpr int kDepthMax = 4096;

Result<void> remove_below(int above, const char* name, int depth) {
  if (::unlinkat(above, name, 0) == 0 || errno == ENOENT)
    return {};
  if (errno != EISDIR && errno != EPERM && errno != EACCES)
    return os_error(name);
  if (depth > kDepthMax)
    return Error{Errc::kExhausted, format("{}: folders lie too deep in each other", name), {}};
  int fd = ::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES && ::fchmodat(above, name, 0700, 0) == 0)
    fd = ::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return os_error(name);
  ::fchmod(fd, 0700);
  DIR* const folder = ::fdopendir(fd);
  if (!folder) {
    ::close(fd);
    return os_error(name);
  }
  Result<void> done;
  while (const dirent* entry = done.ok() ? ::readdir(folder) : nullptr)
    if (std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..")
      done = remove_below(fd, entry->d_name, depth + 1);
  ::closedir(folder);
  if (done.ok() && ::unlinkat(above, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
    return os_error(name);
  return done;
}

}  // namespace

Result<void> remove_tree(const std::string& path) { return remove_below(AT_FDCWD, path.c_str(), 0); }

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return out;
  while (const dirent* entry = ::readdir(open))
    if (const std::string name = entry->d_name; name != "." && name != "..")
      out.push_back(name);
  ::closedir(open);
  return out;
}

Result<void> write_file(const std::string& path, std::string_view text, unsigned mode) {
  const OpenFile file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file.valid())
    return os_error(path);
  const ssize_t size = ::write(file.get(), text.data(), text.size());
  if (size == static_cast<ssize_t>(text.size()))
    return {};
  errno = size < 0 ? errno : ENOSPC;
  return os_error(path);
}

}  // namespace lockstep
