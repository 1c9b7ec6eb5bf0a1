#include "shim/sandbox_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"
#include "wire/front_end_files.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr int kDepthMost = 512;  // below that nothing is counted: a path so long cannot be opened by its name either
constexpr std::uint64_t kBlock = 512;

// What lies below, on the same file system: links are not followed.
std::uint64_t bytes_below(int folder, dev_t device, int depth) {
  DIR* const dir = depth < kDepthMost ? ::fdopendir(folder) : nullptr;
  if (!dir) {
    ::close(folder);
    return 0;
  }
  std::uint64_t sum = 0;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    struct stat stat {};
    if (name == "." || name == ".." || ::fstatat(::dirfd(dir), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        stat.st_dev != device)
      continue;
    // One of several names counts its part.
    sum += static_cast<std::uint64_t>(stat.st_blocks) * kBlock /
           std::max<std::uint64_t>(1, S_ISDIR(stat.st_mode) ? 1 : stat.st_nlink);
    if (!S_ISDIR(stat.st_mode))
      continue;
    const int below = ::openat(::dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below >= 0)
      sum += bytes_below(below, device, depth + 1);
  }
  ::closedir(dir);
  return sum;
}

}  // namespace

std::uint64_t bytes_in_folder(const std::string& path) {
  struct stat stat {};
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0 || ::fstat(folder, &stat) != 0)
    return 0;
  return bytes_below(folder, stat.st_dev, 0);
}

// Its logs, and what it wrote outside of volumes.
std::uint64_t bytes_of_container(const std::string& folder) {
  std::uint64_t sum = 0;
  DIR* const dir = ::opendir(folder.c_str());
  if (!dir)
    return 0;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string life = format("{}/{}", folder, std::string_view(entry->d_name));
    if (entry->d_name[0] == '.')
      continue;
    sum += bytes_in_folder(life + "/upper");
    for (int number = 0; number <= kOlderLogs; ++number) {
      struct stat stat {};
      const std::string log =
          number == 0 ? format("{}/{}", life, kLogFile) : format("{}/{}.{}", life, kLogFile, number);
      if (::lstat(log.c_str(), &stat) == 0)
        sum += static_cast<std::uint64_t>(stat.st_blocks) * kBlock;
    }
  }
  ::closedir(dir);
  return sum;
}

std::string bytes_words(std::uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  std::size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return format("{}{}", bytes, kUnits[unit]);
}

bool has_lasting_bound(const SandboxVolume& volume) {
  return volume.kind == SandboxVolume::Kind::kHost && volume.path_type == kLastingVolume && volume.bytes_max > 0;
}

std::string disk_overrun(const Sandbox& sandbox, const std::string& folder, const std::string& home) {
  std::uint64_t sum = 0;
  for (const SandboxVolume& volume : sandbox.volumes) {
    if (has_lasting_bound(volume)) {
      const auto path = path_of_lasting(volume.path, home);
      if (path.ok() && bytes_in_folder(*path) > volume.bytes_max)
        return format("Usage of volume \"{}\" exceeds the capacity of its claim \"{}\". ", volume.name,
                      bytes_words(volume.bytes_max));
      continue;
    }
    if (volume.kind != SandboxVolume::Kind::kDisk || (volume.bytes_max == 0 && sandbox.disk_bytes == 0))
      continue;
    const std::uint64_t bytes = bytes_in_folder(format("{}/volumes/{}", folder, volume.name));
    sum += bytes;
    if (volume.bytes_max > 0 && bytes > volume.bytes_max)
      return format("Usage of EmptyDir volume \"{}\" exceeds the limit \"{}\". ", volume.name,
                    bytes_words(volume.bytes_max));
  }
  for (const SandboxContainer& one : sandbox.containers) {
    if (one.disk_bytes == 0 && sandbox.disk_bytes == 0)
      continue;
    const std::uint64_t bytes = bytes_of_container(container_folder(folder, one.name));
    sum += bytes;
    if (one.disk_bytes > 0 && bytes > one.disk_bytes)
      return format("Container {} exceeded its local ephemeral storage limit \"{}\". ", one.name,
                    bytes_words(one.disk_bytes));
  }
  if (sandbox.disk_bytes > 0 && sum > sandbox.disk_bytes)
    return format("Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
                  bytes_words(sandbox.disk_bytes));
  return {};
}

}  // namespace lockstep
