#include "shim/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr int kDepthMax = 32;                     // directories that are open at once
constexpr const char* kDeep = ".lockstep-deep-";  // what was too deep, once it lies at the top

int open_directory(int above, const char* name) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  return static_cast<int>(::syscall(SYS_openat2, above, name, &how, sizeof how));
}

class Removal {
 public:
  explicit Removal(int top) : top_(top) {}

  void empty(int directory, int depth);
  void remove_directory(int above, const char* name, int depth);
  const std::optional<Error>& left() const { return left_; }

 private:
  void stays(const char* name) {
    if (!left_)
      left_ = os_error(format("cannot remove {}", name));
  }

  int top_;
  std::optional<Error> left_;
};

bool is_dots(const char* name) { return ::strcmp(name, ".") == 0 || ::strcmp(name, "..") == 0; }

// Read again until it is empty: one that is changed while it is read may leave names out, and at the top there is what
// was too deep.
void Removal::empty(int directory, int depth) {
  for (bool found = true; found && !left_;) {
    found = false;
    const int fd = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const list = fd < 0 ? nullptr : ::fdopendir(fd);
    if (!list) {
      stays(".");
      if (fd >= 0)
        ::close(fd);
      return;
    }
    while (const dirent* entry = ::readdir(list)) {
      if (is_dots(entry->d_name))
        continue;
      found = true;
      if (::unlinkat(directory, entry->d_name, 0) == 0 || errno == ENOENT)
        continue;
      if (errno == EISDIR || errno == EPERM)
        remove_directory(directory, entry->d_name, depth + 1);
      else
        stays(entry->d_name);
    }
    ::closedir(list);
  }
}

void Removal::remove_directory(int above, const char* name, int depth) {
  if (::unlinkat(above, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
    return;
  if (depth >= kDepthMax) {
    std::uint64_t number = 0;  // that nobody could have taken before us
    if (::getrandom(&number, sizeof number, 0) != sizeof number ||
        ::renameat(above, name, top_, format("{}{:x}", kDeep, number).c_str()) != 0)
      stays(name);
    return;
  }
  const int fd = open_directory(above, name);
  if (fd < 0)
    return stays(name);
  empty(fd, depth);
  ::close(fd);
  if (::unlinkat(above, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
    stays(name);
}

}  // namespace

Result<void> remove_tree(int directory, const std::string& name) {
  if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT)
    return {};
  const int top = open_directory(directory, name.c_str());
  if (top < 0)
    return os_error(format("cannot remove {}", name));
  Removal removal(top);
  removal.empty(top, 0);
  ::close(top);
  if (removal.left())
    return *removal.left();
  return ::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT
             ? Result<void>()
             : os_error(format("cannot remove {}", name));
}

}  // namespace lockstep
