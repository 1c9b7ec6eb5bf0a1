#include "container/image_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/credentials.h"
#include "container/open_file.h"
#include "container/tool.h"

namespace lockstep {
namespace {

constexpr std::size_t kConfigMax = 8 << 20, kEnrootFileMax = 1 << 20, kNetrcMax = 1 << 20;
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

// A digest without the colon, which would part a path from a tag for the tools.
std::string key_of_digest(const std::string& digest) { return "sha256-" + digest.substr(digest.find(':') + 1); }
std::string digest_of_key(const std::string& key) { return "sha256:" + key.substr(key.find('-') + 1); }

// A file is the same as long as nobody wrote to it.
Result<std::string> key_of_file(const std::string& path) {
  struct stat stat {};
  if (::stat(path.c_str(), &stat) != 0)
    return Error{errno == ENOENT ? Errc::kNotFound : Errc::kIo, os_error(path).message, {}};
  if (!S_ISREG(stat.st_mode))
    return invalid(format("{} is no file: a folder with an OCI layout is named oci:{}:TAG", path, path));
  return format("file-{:x}-{:x}-{:x}-{}.{:09}", stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtim.tv_sec,
                stat.st_mtim.tv_nsec);
}

std::string netrc_of_user() {
  const char* config = ::getenv("ENROOT_CONFIG_PATH");
  const char* home = ::getenv("HOME");
  const std::string folder = config && *config ? config : format("{}/.config/enroot", home ? home : "");
  auto text = read_plain(folder + "/.credentials", Links::kFollowed, kNetrcMax);
  return text.ok() ? std::move(*text) : std::string();
}

// The machine's name in enroot's file is that of the server that gives out tokens.
std::vector<std::string> machines_of(const std::string& registry) {
  if (registry == "docker.io")
    return {"auth.docker.io", "registry-1.docker.io", "docker.io"};
  if (registry == "nvcr.io")
    return {"nvcr.io", "authn.nvidia.com"};
  return {registry, registry.substr(0, registry.find(':'))};
}

std::optional<Credentials> credentials_for(const ImageReference& image) {
  const std::string netrc = netrc_of_user();
  for (const std::string& machine : machines_of(image.registry))
    if (auto found = find_credentials(netrc, machine, image.user,
                                      [](const char* name) -> const char* { return ::getenv(name); }))
      return found;
  return std::nullopt;
}

}  // namespace

// Options of skopeo for how a registry is spoken to. prefix: "" or "src-".
Result<std::vector<std::string>> ImageStore::access_options(const ImageReference& image,
                                                            std::string_view prefix) const {
  std::vector<std::string> options;
  if (image.source != ImageReference::Source::kRegistry)
    return options;
  if (is_loopback_registry(image.registry))
    options.push_back(format("--{}tls-verify=false", prefix));
  if (const auto credentials = credentials_for(image)) {
    const std::string file = format("{}/auth-{}.json", home_, ::getpid());
    TRY(write_file(file, docker_auth_file(image.registry, *credentials)));
    options.push_back(format("--{}authfile={}", prefix.empty() ? "" : "src-", file));
  } else if (!image.user.empty()) {
    return denied(format("no credentials of {} for {} in ~/.config/enroot/.credentials", image.user, image.registry));
  }
  return options;
}

Result<std::string> ImageStore::key_of(const ImageReference& image) const {
  if (!image.digest.empty())
    return key_of_digest(image.digest);
  if (image.source == ImageReference::Source::kFile || image.source == ImageReference::Source::kArchive)
    return key_of_file(image.path);
  ToolRun ask{{"skopeo", "inspect", "--raw"}};
  for (std::string& option : TRY(access_options(image, ""))) ask.argv.push_back(std::move(option));
  ask.argv.push_back(image.transport);
  auto manifest = run_tool(ask);
  ::unlink(format("{}/auth-{}.json", home_, ::getpid()).c_str());
  ToolRun digest{{"skopeo", "manifest-digest", "/dev/stdin"}};
  digest.input = TRY(std::move(manifest));
  const std::string text(trim(TRY(run_tool(digest))));
  if (!text.starts_with("sha256:") || text.find('/') != text.npos)
    return Error{Errc::kCorrupt, format("{}: its manifest has no digest", image.transport), {}};
  return key_of_digest(text);
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

Result<StoredImage> ImageStore::fetch(const ImageReference& image) {
  TRY(make_folders(home_ + "/images"));
  const std::string key = TRY(key_of(image));
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
  if (auto made = make(image, key); !made.ok())
    return with_room(std::move(made).error(), home_);
  return open(key);
}

Result<void> ImageStore::make(const ImageReference& image, const std::string& key) {
  const std::string part = format("{}/images/{}.part", home_, key);
  TRY(remove_tree(part));
  TRY(make_folders(part));
  const bool squashfs = image.source == ImageReference::Source::kFile && is_squashfs(image.path);
  const auto made = squashfs ? unpack_squashfs(image.path, part) : unpack_registry(image, key, part);
  ::unlink(format("{}/auth-{}.json", home_, ::getpid()).c_str());
  if (!made.ok()) {
    (void)remove_tree(part);
    return made;
  }
  if (::rename(part.c_str(), format("{}/images/{}", home_, key).c_str()) != 0)
    return os_error(part);
  return {};
}

Result<void> ImageStore::unpack_squashfs(const std::string& file, const std::string& part) const {
  tell_(format("unpacking {} ...", file));
  ToolRun unpack{{"unsquashfs", "-no-progress", "-no-xattrs", "-d", part + "/rootfs", file}};
  unpack.good = {0, 2};  // 2: devices, which only root could make, were left out
  TRY(run_tool(unpack));
  return {};
}

Result<void> ImageStore::unpack_registry(const ImageReference& image, const std::string& key, const std::string& part) {
  const std::string layout = part + "/layout";
  TRY(make_folders(home_ + "/blobs"));
  TRY(make_folders(layout));
  if (::symlink("../../../blobs", (layout + "/blobs").c_str()) != 0)
    return os_error(layout);
  std::string source = image.transport;
  if (image.source == ImageReference::Source::kFile)
    source = "docker-archive:" + image.path;
  else if (image.source == ImageReference::Source::kRegistry)  // the one whose name we gave the folder
    source = format("docker://{}/{}@{}", image.registry, image.repository, digest_of_key(key));
  tell_(format("importing {} ...", image.source == ImageReference::Source::kRegistry ? "docker image" : source));
  ToolRun copy{{"skopeo", "copy", "--quiet", "--retry-times=2"}};
  for (std::string& option : TRY(access_options(image, "src-"))) copy.argv.push_back(std::move(option));
  copy.argv.insert(copy.argv.end(), {source, format("oci:{}:image", layout)});
  TRY(run_tool(copy));
  tell_("creating container filesystem ...");
  TRY(run_tool({{"umoci", "raw", "unpack", "--rootless", "--image", layout + ":image", part + "/rootfs"}}));
  const std::string config =
      TRY(run_tool({{"skopeo", "inspect", "--config", "--raw", format("oci:{}:image", layout)}}));
  TRY(parse_image_config(config));
  TRY(write_file(part + "/config.json", config));
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
