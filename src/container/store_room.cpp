#include "container/store_room.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/open_file.h"
#include "wire/sandbox_paths.h"

namespace lockstep {
namespace {

constexpr std::size_t kLimitsMax = 4 << 10, kSizeMax = 64, kKeyMax = 256;
constexpr std::int64_t kJustUsedSeconds = 60;  // between the choice of an image and the note that it is used
constexpr std::int64_t kBlockBytes = 512;
constexpr const char* kSizeFile = "/size";

// One thing that may go: a blob, or an image with its files.
struct Kept {
  std::string path;
  std::int64_t bytes = 0, used_s = 0;
  bool is_image = false;
};

std::int64_t bytes_below(int above, const char* name) {
  std::int64_t bytes = 0;
  const int fd = ::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* const open = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!open) {
    if (fd >= 0)
      ::close(fd);
    return 0;
  }
  while (const dirent* entry = ::readdir(open)) {
    struct stat stat {};
    const std::string_view inner = entry->d_name;
    if (inner == "." || inner == ".." || ::fstatat(fd, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    bytes += stat.st_blocks * kBlockBytes / std::max<std::int64_t>(1, S_ISDIR(stat.st_mode) ? 1 : stat.st_nlink);
    if (S_ISDIR(stat.st_mode))
      bytes += bytes_below(fd, entry->d_name);
  }
  ::closedir(open);
  return bytes;
}

std::int64_t size_of_image(const std::string& folder) {
  const auto text = read_plain(folder + kSizeFile, Links::kRefused, kSizeMax);
  const auto bytes = text.ok() ? parse_uint(trim(*text)) : std::nullopt;
  return bytes ? static_cast<std::int64_t>(*bytes) : bytes_below(AT_FDCWD, folder.c_str());
}

// Of containers that run, or are kept under a name.
std::set<std::string> images_in_use(const std::string& home) {
  std::set<std::string> keys;
  const auto note = [&](const std::string& path) {
    if (const auto key = read_plain(path, Links::kRefused, kKeyMax); key.ok())
      keys.emplace(trim(*key));
  };
  for (const std::string& job : names_in(home + "/jobs")) {
    const std::string folder = format("{}/jobs/{}", home, job);
    for (const std::string& step : names_in(folder + "/steps")) note(format("{}/steps/{}/box/image", folder, step));
    for (const std::string& name : names_in(folder + "/names")) note(format("{}/names/{}/image", folder, name));
    for (const std::string& work : names_in(folder + "/sandboxes")) {
      const std::string containers = format("{}/sandboxes/{}/containers", folder, work);
      for (const std::string& name : names_in(containers))
        for (const std::string& life : names_in(format("{}/{}", containers, name)))
          for (const std::string& file : names_in(format("{}/{}/{}", containers, name, life)))
            if (file.starts_with(kImageOfLife))
              note(format("{}/{}/{}/{}", containers, name, life, file));
    }
  }
  return keys;
}

std::vector<Kept> kept_in(const std::string& home) {
  std::vector<Kept> all;
  struct stat stat {};
  for (const std::string& name : names_in(home + "/blobs/sha256"))
    if (Kept kept{format("{}/blobs/sha256/{}", home, name), 0, 0, false}; ::lstat(kept.path.c_str(), &stat) == 0) {
      kept.bytes = stat.st_blocks * kBlockBytes;
      kept.used_s = stat.st_mtim.tv_sec;
      all.push_back(std::move(kept));
    }
  for (const std::string& name : names_in(home + "/images"))
    if (Kept kept{format("{}/images/{}", home, name), 0, 0, true};
        !name.ends_with(".lock") && !name.ends_with(".part") && ::lstat(kept.path.c_str(), &stat) == 0) {
      kept.bytes = size_of_image(kept.path);
      kept.used_s = stat.st_mtim.tv_sec;
      all.push_back(std::move(kept));
    }
  return all;
}

bool is_used(const Kept& kept, const std::set<std::string>& in_use) {
  return kept.used_s + kJustUsedSeconds > ::time(nullptr) ||
         (kept.is_image && in_use.contains(kept.path.substr(kept.path.rfind('/') + 1)));
}

// Out of the way as a whole, if nobody has begun to use it meanwhile.
bool dropped(const Kept& kept, const std::string& home) {
  struct stat stat {};
  const std::string trash = home + "/trash";
  const std::string aside = format("{}/{}.{}", trash, kept.path.substr(kept.path.rfind('/') + 1), ::getpid());
  return ::lstat(kept.path.c_str(), &stat) == 0 && stat.st_mtim.tv_sec == kept.used_s && make_folders(trash).ok() &&
         ::rename(kept.path.c_str(), aside.c_str()) == 0 && remove_tree(aside).ok();
}

}  // namespace

StoreRoom::StoreRoom(std::string home) : home_(std::move(home)) {
  const std::string file = home_.substr(0, home_.rfind('/') + 1) + kStoreLimitsFile;
  if (const auto text = read_plain(file, Links::kRefused, kLimitsMax); text.ok())
    limits_ = decode_store_limits(*text);
}

std::int64_t StoreRoom::free_above_floor() const {
  struct statvfs room {};
  if (::statvfs(home_.c_str(), &room) != 0)
    return INT64_MAX;
  // Of what ordinary users can have at all, as df(1) reckons.
  const auto available = static_cast<std::int64_t>(room.f_bavail);
  const std::int64_t all = static_cast<std::int64_t>(room.f_blocks - room.f_bfree) + available;
  return (available - all / 100 * limits_.free_percent) * static_cast<std::int64_t>(room.f_frsize);
}

Error StoreRoom::full(std::uint64_t wanted, std::int64_t may) const {
  return {
      Errc::kExhausted,
      format("the image takes {} MiB, and images of yours may take {} MiB more on this node, which leave {} % of the "
             "disk to others: remove what you do not need under {}/images, or ask the node's administrator "
             "(\"images\" in agent.json)",
             (wanted >> 20) + 1, std::max<std::int64_t>(may, 0) >> 20, limits_.free_percent, home_),
      {}};
}

Result<void> StoreRoom::check() const {
  if (free_above_floor() >= 0)
    return {};
  return Error{Errc::kExhausted,
               format("the disk under {} is full: images leave {} % of it to others", home_, limits_.free_percent),
               {}};
}

Result<void> StoreRoom::check(std::uint64_t written) const {
  TRY(check());
  const std::int64_t most = TRY(quota());
  return static_cast<std::int64_t>(written) <= most ? Result<void>() : Result<void>(full(written, most));
}

Result<std::int64_t> StoreRoom::quota() const {
  struct statvfs room {};
  if (::statvfs(home_.c_str(), &room) != 0)
    return os_error(home_);
  return user_bytes(limits_, static_cast<std::int64_t>(room.f_blocks * room.f_frsize));
}

Result<std::int64_t> StoreRoom::gain(std::int64_t wanted) const {
  std::vector<Kept> all = kept_in(home_);
  std::int64_t taken = 0;
  for (const Kept& kept : all) taken += kept.bytes;
  std::int64_t may = std::min(TRY(quota()) - taken, free_above_floor());
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.used_s < b.used_s; });
  const std::set<std::string> in_use = may < wanted ? images_in_use(home_) : std::set<std::string>();
  for (const Kept& kept : all) {
    if (may >= wanted)
      break;
    if (!is_used(kept, in_use) && dropped(kept, home_))
      may += kept.bytes;
  }
  return may;
}

void StoreRoom::drop(std::int64_t bytes) const {
  std::vector<Kept> all = kept_in(home_);
  std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.used_s < b.used_s; });
  const std::set<std::string> in_use = images_in_use(home_);
  for (const Kept& kept : all) {
    if (bytes <= 0)
      return;
    if (!is_used(kept, in_use) && dropped(kept, home_))
      bytes -= kept.bytes;
  }
}

Result<void> StoreRoom::make(std::uint64_t certainly, std::uint64_t perhaps) const {
  const std::int64_t may = TRY(gain(static_cast<std::int64_t>(certainly + perhaps)));
  return may >= static_cast<std::int64_t>(certainly) ? Result<void>() : Result<void>(full(certainly, may));
}

Result<void> StoreRoom::note_size(const std::string& folder) const {
  return write_file(folder + kSizeFile, format("{}\n", bytes_below(AT_FDCWD, folder.c_str())));
}

Result<void> StoreRoom::keep(const std::string& folder) const {
  const std::int64_t may = TRY(gain(0));
  const std::int64_t size = size_of_image(folder);
  return may >= 0 ? Result<void>() : Result<void>(full(static_cast<std::uint64_t>(size), size + may));
}

}  // namespace lockstep
