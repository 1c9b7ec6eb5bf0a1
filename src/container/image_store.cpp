#include "container/image_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/blob_digest.h"
#include "container/layer_formats.h"
#include "container/open_file.h"
#include "container/store_room.h"
#include "container/tool.h"

namespace lockstep {
namespace {

constexpr std::size_t kNameMax = 512, kLoginsMax = 64 << 10;
constexpr std::size_t kConfigMax = 8 << 20, kEnrootFileMax = 1 << 20;
constexpr std::string_view kSquashfsMagic = "hsqs";

// The message of a full disk is one of the tool's many; what it means is always the same.
Error with_room(Error error, const std::string& folder) {
  struct statvfs room {};
  if (error.message.find("no space left") == std::string::npos &&
      error.message.find("No space left") == std::string::npos &&
      (::statvfs(folder.c_str(), &room) != 0 || room.f_bavail > 0))
    return error;
  return {Errc::kExhausted, format("the disk under {} is full: {}", folder, error.message), {}};
}

bool is_squashfs(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  char magic[4];
  return file.valid() && ::read(file.get(), magic, sizeof magic) == sizeof magic &&
         std::string_view(magic, sizeof magic) == kSquashfsMagic;
}

// A file is the same as long as nobody wrote to it; a layout says itself what it has.
Result<std::string> key_of_file(const ImageReference& image) {
  const std::string& path = image.path;
  struct stat stat {};
  if (image.source == ImageReference::Source::kLayout) {
    const std::string digest = blob_digest_of(TRY(run_tool({{"skopeo", "inspect", "--raw", image.transport}})));
    return "sha256-" + hex_of_digest(digest);
  }
  if (::stat(path.c_str(), &stat) != 0)
    return Error{errno == ENOENT ? Errc::kNotFound : Errc::kIo, os_error(path).message, {}};
  if (!S_ISREG(stat.st_mode))
    return invalid(format("{} is no file: a folder with an OCI layout is named oci:{}:TAG", path, path));
  return format("file-{:x}-{:x}-{:x}-{}.{:09}", stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtim.tv_sec,
                stat.st_mtim.tv_nsec);
}

// With the store's blobs as its own.
Result<std::string> make_layout(const std::string& home, const std::string& part) {
  const std::string layout = part + "/layout";
  TRY(make_folders(home + "/blobs/sha256"));
  TRY(make_folders(layout));
  if (::symlink("../../../blobs", (layout + "/blobs").c_str()) != 0)
    return os_error(layout);
  return layout;
}

}  // namespace

std::string image_key(std::string_view digest) { return "sha256-" + hex_of_digest(digest); }

std::string ImageStore::key_for(std::string key) const {
  return owners_ == Owners::kAsPacked ? std::move(key) + ".packed" : key;
}

Result<StoredImage> ImageStore::known(std::string_view name) const {
  return open(std::string(
      trim(TRY(read_plain(format("{}/names/{}", home_, image_key(blob_digest_of(name))), Links::kRefused, kNameMax)))));
}

// Without it the registry is asked once more.
void ImageStore::remember(std::string_view name, const std::string& key) const {
  const std::string path = format("{}/names/{}", home_, image_key(blob_digest_of(name)));
  const std::string fresh = format("{}.{}", path, ::getpid());
  if (make_folders(home_ + "/names").ok() && write_file(fresh, key + "\n").ok())
    ::rename(fresh.c_str(), path.c_str());
}

namespace {

std::string sum_of_login(std::string_view login) { return hex_of_digest(blob_digest_of(login)); }

}  // namespace

void ImageStore::note_login(const std::string& key, std::string_view login) const {
  const std::string path = format("{}/shown/{}", home_, key);
  if (login.empty()) {
    ::unlink(path.c_str());
    return;
  }
  const auto before = read_plain(path, Links::kRefused, kLoginsMax);
  std::string text = before.ok() ? *before : std::string();
  const std::string line = sum_of_login(login) + "\n";
  if (text.find(line) != text.npos)
    return;
  if (text.size() + line.size() > kLoginsMax)
    text.clear();  // those who are forgotten are asked about once more
  const std::string fresh = format("{}.{}", path, ::getpid());
  if (make_folders(home_ + "/shown").ok() && write_file(fresh, text + line).ok())
    ::rename(fresh.c_str(), path.c_str());
}

bool ImageStore::is_for(const std::string& key, const std::vector<std::string>& logins) const {
  const auto text = read_plain(format("{}/shown/{}", home_, key), Links::kRefused, kLoginsMax);
  if (!text.ok())
    return text.error().code == Errc::kNotFound;
  for (const std::string& login : logins)
    if (text->find(sum_of_login(login) + "\n") != text->npos)
      return true;
  return false;
}

Result<StoredImage> ImageStore::open(const std::string& key) const {
  ::utimensat(AT_FDCWD, format("{}/images/{}", home_, key).c_str(), nullptr, 0);  // it is used now (remove_unused)
  StoredImage image{key, format("{}/images/{}/rootfs", home_, key), {}};
  const std::string config = format("{}/images/{}/config.json", home_, key);
  if (const auto text = read_plain(config, Links::kRefused, kConfigMax); text.ok()) {
    image.config = TRY(parse_image_config(*text));
    return image;
  } else if (text.error().code != Errc::kNotFound) {
    return text.error();
  }
  const OpenFile root(::open(image.rootfs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid())
    return not_found(format("{} is not in the store", key));
  image.config = parse_enroot_config(read_in_root(root.get(), "/etc/environment", kEnrootFileMax),
                                     read_in_root(root.get(), "/etc/rc", kEnrootFileMax));
  return image;
}

Result<StoredImage> ImageStore::fetch(const ImageReference& image, ImagePeers peers) {
  TRY(make_folders(home_ + "/images"));
  if (image.source != ImageReference::Source::kRegistry) {
    const std::string key = key_for(TRY(key_of_file(image)));
    return made(key, [&](const std::string& part) { return unpack_file(image, part); });
  }
  const auto publish = peers.publish ? peers.publish : [](std::string_view) {};
  publish("begun");
  ImagePull pull(image, home_, std::move(peers), tell_);
  const auto digest = pull.find();
  publish(digest.ok() ? *digest : "none");
  if (!digest.ok())
    return with_room(digest.error(), home_);
  auto stored = made(key_for(image_key(*digest)), [&](const std::string& part) -> Result<void> {
    const std::string layout = TRY(make_layout(home_, part));
    TRY(pull.fetch(*digest, part, layout));
    return unpack_layout(layout, part);
  });
  if (!stored.ok())
    publish("none");
  return stored;
}

// From the store; else unpacked into a folder, which becomes the store's when it is whole.
Result<StoredImage> ImageStore::made(const std::string& key,
                                     const std::function<Result<void>(const std::string& part)>& unpack) {
  if (auto stored = open(key); stored.ok())
    return stored;
  const std::string lock_path = format("{}/images/{}.lock", home_, key);
  const OpenFile lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid())
    return os_error(lock_path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    tell_("waiting for another step on this node that fetches the same image ...");
    while (::flock(lock.get(), LOCK_EX) != 0)
      if (errno != EINTR)
        return os_error(lock_path);
  }
  if (auto stored = open(key); stored.ok())
    return stored;
  const std::string part = format("{}/images/{}.part", home_, key);
  TRY(remove_tree(part));
  TRY(make_folders(part));
  if (auto unpacked = unpack(part); !unpacked.ok()) {
    (void)remove_tree(part);
    return with_room(std::move(unpacked).error(), home_);
  }
  const StoreRoom room(home_);
  const std::string folder = format("{}/images/{}", home_, key);
  TRY(room.note_size(part));
  if (::rename(part.c_str(), folder.c_str()) != 0)
    return os_error(part);
  if (auto fits = room.keep(folder); !fits.ok()) {
    (void)remove_tree(folder);
    return std::move(fits).error();
  }
  return open(key);
}

Result<void> ImageStore::unpack_squashfs(const std::string& file, const std::string& part) const {
  tell_(format("unpacking {} ...", file));
  ToolRun unpack{{"unsquashfs", "-no-progress", "-no-xattrs", "-d", part + "/rootfs", file}};
  unpack.look = [room = StoreRoom(home_)] { return room.check(); };
  unpack.good = {0, 2};  // 2: devices, which only root could make, were left out
  TRY(run_tool(unpack));
  return {};
}

Result<void> ImageStore::unpack_file(const ImageReference& image, const std::string& part) const {
  const bool is_file = image.source == ImageReference::Source::kFile;
  if (is_file && is_squashfs(image.path))
    return unpack_squashfs(image.path, part);
  const std::string layout = TRY(make_layout(home_, part));
  const std::string source = is_file ? "docker-archive:" + image.path : image.transport;
  tell_(format("importing {} ...", source));
  ToolRun copy{{"skopeo", "copy", "--quiet", source, format("oci:{}:image", layout)}};
  copy.look = [room = StoreRoom(home_)] { return room.check(); };
  TRY(run_tool(copy));
  return unpack_layout(layout, part);
}

Result<void> ImageStore::unpack_layout(const std::string& layout, const std::string& part) const {
  tell_("creating container filesystem ...");
  const ImageBlobs blobs(home_);
  const std::vector<std::string> added = TRY(make_layers_readable(
      layout, blobs, [room = StoreRoom(home_)](std::uint64_t written) { return room.check(written); }));
  ToolRun unpack{{"umoci", "raw", "unpack", "--image", layout + ":image", part + "/rootfs"}};
  if (owners_ == Owners::kUser)
    unpack.argv.insert(unpack.argv.begin() + 3, "--rootless");
  unpack.look = [room = StoreRoom(home_)] { return room.check(); };
  TRY(run_tool(unpack));
  const std::string config =
      TRY(run_tool({{"skopeo", "inspect", "--config", "--raw", format("oci:{}:image", layout)}}));
  TRY(parse_image_config(config));
  TRY(write_file(part + "/config.json", config));
  for (const std::string& digest : added) ::unlink(blobs.path(digest).c_str());
  (void)remove_tree(part + "/source");
  return remove_tree(layout);
}

namespace {

// Everything in a folder that nobody has used for so long.
Result<void> remove_older(const std::string& folder, std::int64_t seconds) {
  DIR* const open = ::opendir(folder.c_str());
  if (!open)
    return errno == ENOENT ? Result<void>() : Result<void>(os_error(folder));
  Result<void> done;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    struct stat stat {};
    if (name == "." || name == ".." || ::fstatat(::dirfd(open), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::time(nullptr) - stat.st_mtime < seconds)
      continue;
    if (auto removed = remove_tree(folder + "/" + name); !removed.ok())
      done = std::move(removed);
  }
  ::closedir(open);
  return done;
}

}  // namespace

Result<void> ImageStore::remove_unused(std::int64_t seconds) const {
  TRY(remove_older(home_ + "/images", seconds));
  return remove_older(home_ + "/blobs/sha256", seconds);
}

}  // namespace lockstep
