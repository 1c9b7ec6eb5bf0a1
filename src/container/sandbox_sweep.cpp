#include "container/sandbox_sweep.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "container/open_file.h"
#include "container/step_files.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

bool is_log(const std::string& name) { return name == "log" || name.starts_with("log.") || name == "alive"; }

std::int64_t changed_at(const std::string& path) {
  struct stat stat {};
  return ::lstat(path.c_str(), &stat) == 0 ? stat.st_ctim.tv_sec : 0;
}

struct EndedSandbox {
  std::string folder;
  std::int64_t changed_s = 0;
  std::uint64_t bytes = 0;
};

// The logs of one container's lives, with the number of the last.
void keep_logs(const std::string& container, EndedSandbox& sandbox) {
  for (const std::string& life : names_in(container)) {
    const std::string path = format("{}/{}", container, life);
    struct stat stat {};
    if (life == "life")
      continue;
    if (::lstat(path.c_str(), &stat) != 0 || !S_ISDIR(stat.st_mode)) {
      ::unlink(path.c_str());
      continue;
    }
    for (const std::string& name : names_in(path))
      if (const std::string file = format("{}/{}", path, name); !is_log(name)) {
        (void)remove_tree(file);
      } else if (::lstat(file.c_str(), &stat) == 0) {
        sandbox.bytes += static_cast<std::uint64_t>(stat.st_size);
        sandbox.changed_s = std::max<std::int64_t>(sandbox.changed_s, stat.st_mtim.tv_sec);
      }
  }
}

// What is shown of logs that have gone: files that have no other name any more, the folders in which they were the
// last, and links to either.
void sweep_shown_logs(const std::string& home) {
  const std::string logs = shown_logs(home), pods = logs + "/pods", links = logs + "/containers";
  struct stat stat {};
  for (const std::string& pod : names_in(pods)) {
    const std::string folder = format("{}/{}", pods, pod);
    for (const std::string& container : names_in(folder)) {
      const std::string below = format("{}/{}", folder, container);
      for (const std::string& name : names_in(below))
        if (const std::string file = format("{}/{}", below, name);
            ::lstat(file.c_str(), &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_nlink == 1)
          ::unlink(file.c_str());
      ::rmdir(below.c_str());
    }
    ::rmdir(folder.c_str());
  }
  for (const std::string& name : names_in(links)) {
    const std::string link = format("{}/{}", links, name);
    char text[4096];
    const ssize_t size = ::readlink(link.c_str(), text, sizeof text);
    const std::string_view target(text, size > 0 ? static_cast<std::size_t>(size) : 0);
    if (target.starts_with(kPodLogs) &&
        ::lstat(format("{}{}", pods, target.substr(std::string_view(kPodLogs).size())).c_str(), &stat) != 0)
      ::unlink(link.c_str());
  }
}

}  // namespace

Result<void> sweep_sandboxes(const std::string& home, const std::vector<std::string>& jobs_here, const LogsKept& kept) {
  const std::string jobs = home + "/jobs";
  std::vector<EndedSandbox> ended;
  Result<void> done;
  const std::int64_t now = ::time(nullptr);
  for (const std::string& job : names_in(jobs)) {
    const std::string folder = format("{}/{}", jobs, job), sandboxes = folder + "/sandboxes";
    if (std::find(jobs_here.begin(), jobs_here.end(), job) != jobs_here.end() ||
        std::max(changed_at(folder), changed_at(sandboxes)) > now - kept.settled_seconds)
      continue;
    if (::access(sandboxes.c_str(), X_OK) != 0) {
      if (auto removed = remove_tree(folder); !removed.ok())
        done = std::move(removed);
      continue;
    }
    (void)remove_all_but(folder, {"sandboxes"});
    for (const std::string& work : names_in(sandboxes)) {
      EndedSandbox one{format("{}/{}", sandboxes, work)};
      (void)remove_all_but(one.folder, {"containers"});
      for (const std::string& container : names_in(one.folder + "/containers"))
        keep_logs(format("{}/containers/{}", one.folder, container), one);
      ended.push_back(std::move(one));
    }
  }
  std::sort(ended.begin(), ended.end(),
            [](const EndedSandbox& a, const EndedSandbox& b) { return a.changed_s > b.changed_s; });
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    bytes += ended[i].bytes;
    if (i < kept.sandboxes_max && bytes <= kept.bytes_max && now - ended[i].changed_s < kept.seconds)
      continue;
    (void)remove_tree(ended[i].folder);
    const std::string sandboxes = ended[i].folder.substr(0, ended[i].folder.rfind('/'));
    if (::rmdir(sandboxes.c_str()) == 0)
      ::rmdir(sandboxes.substr(0, sandboxes.rfind('/')).c_str());
  }
  sweep_shown_logs(home);
  return done;
}

}  // namespace lockstep
