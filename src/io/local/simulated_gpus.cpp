#include "io/local/simulated_gpus.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "io/local/process.h"
#include "io/local/state_dir.h"

namespace lockstep {

namespace {

constexpr const char* kPrograms = "/usr/local/bin";
constexpr const char* kCache = "/etc/ld.so.cache";

bool has_driver() { return access("/usr/bin/nvidia-smi", F_OK) == 0 || access("/proc/driver/nvidia", F_OK) == 0; }
bool has_real_one() { return has_driver() || access("/usr/local/bin/nvidia-smi", F_OK) == 0; }

// Laid over the directory, so that what is in it stays where it is; nothing can be written there on the node.
Result<void> show_programs(const std::string& folder) {
  if (access((folder + "/nvidia-smi").c_str(), X_OK) != 0)
    return not_found(format("{}/nvidia-smi is missing", folder));
  if (folder.find_first_of(":,\\") != std::string::npos)
    return invalid(format("{} cannot be named to mount: it has a colon, comma or backslash", folder));
  const std::string layers = format("lowerdir={}:{}", folder, kPrograms);
  if (mount("overlay", kPrograms, "overlay", MS_RDONLY | MS_NODEV, layers.c_str()) != 0)
    return os_error(format("cannot lay {} over {}", folder, kPrograms));
  return {};
}

timespec changed_at(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? found.st_mtim : timespec{};
}

// The linker's cache of the machine and our library. Made again when the machine's has changed.
Result<void> show_library(const SimulatedGpus& gpus, const std::string& library_dir) {
  const std::string cache = gpus.node_dir + "/ld.so.cache", conf = gpus.node_dir + "/ld.so.conf";
  const std::string wanted =
      format("{}{}\n", access("/etc/ld.so.conf", R_OK) == 0 ? "include /etc/ld.so.conf\n" : "", library_dir);
  const auto had = read_file(conf);
  const timespec ours = changed_at(cache), theirs = changed_at(kCache);
  if (!had || *had != wanted || ours.tv_sec <= theirs.tv_sec) {
    TRY(write_file(conf, wanted, 0644));
    TRY(run_program({"ldconfig", "-X", "-C", cache, "-f", conf}));
  }
  chmod(cache.c_str(), 0644);  // every program reads it
  if (access(kCache, F_OK) != 0)
    return not_found(format("{} is missing, so a node cannot have its own", kCache));
  if (mount(cache.c_str(), kCache, nullptr, MS_BIND, nullptr) != 0)
    return os_error(format("cannot show {} as {}", cache, kCache));
  return {};
}

}  // namespace

bool is_shown_at(const std::string& file, const std::string& target) {
  struct stat ours {
  }, seen{};
  return stat(file.c_str(), &ours) == 0 && stat(target.c_str(), &seen) == 0 && ours.st_dev == seen.st_dev &&
         ours.st_ino == seen.st_ino;
}

Result<void> show_library_again(const SimulatedGpus& gpus) {
  char real[PATH_MAX];
  const std::string cache = gpus.node_dir + "/ld.so.cache";
  if (has_driver() || access(cache.c_str(), F_OK) != 0 || is_shown_at(cache, kCache))
    return {};
  if (!realpath(gpus.library_dir.c_str(), real))
    return os_error(gpus.library_dir);
  return show_library(gpus, real);
}

Result<void> show_simulated_gpus(const SimulatedGpus& gpus) {
  const std::string file = gpus.node_dir + "/gpus", link = "/run/lockstep/gpus";
  chmod(file.c_str(), 0644);  // whoever runs jobs asks the library
  unlink(link.c_str());
  if (symlink(file.c_str(), link.c_str()) != 0)
    return os_error(format("cannot make {}", link));
  if (has_real_one())
    return {};
  char real[PATH_MAX];
  if (!realpath(gpus.library_dir.c_str(), real))
    return os_error(gpus.library_dir);
  TRY(show_library(gpus, real));
  return show_programs(format("{}/simulated-gpus", real));
}

}  // namespace lockstep
