#include "pod_logs.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "shim/container_task.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

bool is_same(const std::string& a, const std::string& b) {
  struct stat one {
  }, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

bool is_empty(const std::string& folder) {
  DIR* const open = ::opendir(folder.c_str());
  bool empty = open != nullptr;
  while (const dirent* entry = open ? ::readdir(open) : nullptr) empty = empty && entry->d_name[0] == '.';
  if (open)
    ::closedir(open);
  return empty;
}

Result<void> make_folder_of(const std::string& path, mode_t mode) {
  return ::mkdir(path.c_str(), mode) == 0 || errno == EEXIST ? Result<void>() : Result<void>(os_error(path));
}

// The logs lie where the containers lie, so that they have two names and are written once; it lasts as long as the
// node, whoever its agent is. Collectors are root: nobody else lists whose pods are here.
Result<void> show_at(const std::string& folder, const std::string& target) {
  TRY(make_folder_of(folder, 0700));
  TRY(make_folder_of(target, 0755));
  ::chmod(folder.c_str(), 0700);
  if (is_same(folder, target))
    return {};
  if (!is_empty(target))
    return conflict(target + " holds others' logs");
  if (::mount(folder.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return os_error(target);
  return {};
}

}  // namespace

Result<void> show_pod_logs(const std::string& containers) {
  TRY(make_users_store(containers, {}));  // root's
  const std::string home = containers + "/0";
  TRY(make_folder_of(shown_logs(home), 0700));
  TRY(show_at(shown_logs(home) + "/pods", kPodLogs));
  return show_at(shown_logs(home) + "/containers", kContainerLogs);
}

}  // namespace lockstep
