#include "container/image_pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/text.h"
#include "container/registry_client.h"
#include "container/tool.h"

namespace lockstep {
namespace {

constexpr unsigned kHops = 2;
constexpr std::uint64_t kUnpackedTimes = 3;
constexpr std::int64_t kTellEverySeconds = 5;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::string_view kPartOfSkopeo = "oci-put-blob";  // a blob on its way

std::string machine_here() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "";
}

// A line every few seconds.
class PullProgress {
 public:
  PullProgress(std::uint64_t total, ImagePull::Tell tell) : total_(total), tell_(std::move(tell)) {}
  void at(std::uint64_t bytes) {
    const std::int64_t now = seconds_now();
    if (now - told_ < kTellEverySeconds)
      return;
    told_ = now;
    tell_(format("fetched {} of {} MiB", bytes / kMiB, (total_ + kMiB - 1) / kMiB));
  }

 private:
  static std::int64_t seconds_now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
  }
  std::uint64_t total_;
  ImagePull::Tell tell_;
  std::int64_t told_ = seconds_now();
};

std::uint64_t bytes_here(const ImageManifest& manifest, const ImageBlobs& store, const std::string& layout) {
  std::uint64_t bytes = 0;
  for (const BlobInfo& layer : manifest.layers)
    if (store.has(layer.digest))
      bytes += layer.size;
  DIR* const open = ::opendir(layout.c_str());
  if (!open)
    return bytes;
  struct stat stat {};
  while (const dirent* entry = ::readdir(open))
    if (std::string_view(entry->d_name).starts_with(kPartOfSkopeo) &&
        ::fstatat(::dirfd(open), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
      bytes += static_cast<std::uint64_t>(stat.st_size);
  ::closedir(open);
  return bytes;
}

// As skopeo's dir: transport finds an image: everything in one folder, the manifest by its name, blobs by their
// digests.
Result<void> show_as_folder(const std::string& folder, const std::string& manifest_bytes, const ImageManifest& manifest,
                            const ImageBlobs& store) {
  TRY(make_folders(folder));
  TRY(write_file(folder + "/version", "Directory Transport Version: 1.1\n"));
  TRY(write_file(folder + "/manifest.json", manifest_bytes));
  std::vector<BlobInfo> blobs = manifest.layers;
  blobs.push_back(manifest.config);
  for (const BlobInfo& blob : blobs)
    if (::symlink(store.path(blob.digest).c_str(), format("{}/{}", folder, hex_of_digest(blob.digest)).c_str()) != 0 &&
        errno != EEXIST)
      return os_error(folder);
  return {};
}

}  // namespace

ImagePull::ImagePull(ImageReference image, std::string home, ImagePeers peers, Tell tell)
    : image_(std::move(image)),
      home_(std::move(home)),
      store_(home_),
      room_(home_),
      peers_(std::move(peers)),
      tell_(std::move(tell)) {}

Result<ImagePeer> ImagePull::reach(unsigned hop) {
  if (!peers_.reach || hop >= kHops)
    return not_found("there is no other node to ask");
  auto peer = peers_.reach(hop);
  if (!peer.ok() && peer.error().code != Errc::kNotFound)
    tell_(format("no other node is asked for the image: {}", peer.error().message));
  return peer;
}

Result<std::string> ImagePull::find() {
  if (!image_.digest.empty() && !image_.asks_always)
    return image_.digest;
  for (; !peers_.work.empty() && hop_ < kHops; ++hop_) {
    auto peer = reach(hop_);
    if (!peer.ok())
      continue;
    if (auto digest = peer->which(peers_.work); digest.ok()) {
      peer_ = std::move(*peer);
      return digest;
    }
  }
  return find_in_registry();
}

Result<std::string> ImagePull::find_in_registry() {
  const RegistryClient registry = TRY(RegistryClient::make(image_));
  const std::string manifest = TRY(registry.manifest(""));
  const std::string digest = blob_digest_of(manifest);
  TRY(store_.keep(digest, manifest));
  return digest;
}

Result<void> ImagePull::fetch(const std::string& digest, const std::string& part, const std::string& layout) {
  for (; hop_ < kHops; ++hop_, peer_.reset()) {
    if (!peer_)
      if (auto peer = reach(hop_); peer.ok())
        peer_ = std::move(*peer);
    if (!peer_)
      continue;
    tell_(format("importing docker image from node {} ...", peer_->node()));
    const auto taken = take_from(*peer_, digest, part, layout);
    if (taken.ok() || taken.error().code == Errc::kExhausted)  // there is no more room for it from elsewhere
      return taken;
    tell_(format("node {}: {}", peer_->node(), taken.error().message));
  }
  tell_("importing docker image ...");
  return take_from_registry(digest, layout);
}

// Unpacked, layers are a few times as long.
Result<void> ImagePull::make_room(const ImageManifest& manifest) const {
  std::uint64_t missing = 0;
  for (const BlobInfo& layer : manifest.layers)
    if (store_.has(layer.digest))
      store_.used(layer.digest);
    else
      missing += layer.size;
  return room_.make(missing, kUnpackedTimes * bytes_of(manifest));
}

Result<void> ImagePull::take_from(ImagePeer& peer, const std::string& digest, const std::string& part,
                                  const std::string& layout) {
  TRY(peer.take(digest, {{digest, 0, {}}}, kManifestMax, store_, part, {}));
  std::string bytes = TRY(store_.read(digest, kManifestMax));
  ImageManifest manifest = TRY(parse_image_manifest(bytes));
  if (manifest.is_index) {
    const auto ours = manifest_for(manifest, machine_here());
    if (!ours)
      return not_found(format("the image is not for machines like this one ({})", machine_here()));
    TRY(peer.take(digest, {*ours}, kManifestMax, store_, part, {}));
    bytes = TRY(store_.read(ours->digest, kManifestMax));
    manifest = TRY(parse_image_manifest(bytes));
  }
  std::vector<BlobInfo> blobs = manifest.layers;
  blobs.push_back(manifest.config);
  TRY(make_room(manifest));
  PullProgress progress(bytes_of(manifest), tell_);
  std::uint64_t taken = 0;
  TRY(peer.take(digest, blobs, 0, store_, part, [&](std::uint64_t piece) {
    progress.at(taken += piece);
    return room_.check();
  }));
  const std::string folder = part + "/source";
  TRY(show_as_folder(folder, bytes, manifest, store_));
  ToolRun copy{{"skopeo", "copy", "--quiet", "dir:" + folder, format("oci:{}:image", layout)}};
  if (!manifest.is_dockers)
    copy.argv.insert(copy.argv.begin() + 2, "--preserve-digests");
  TRY(run_tool(copy));
  return {};
}

// What other nodes will ask for by its digest is kept as the registry has it, before the layers come. digest becomes
// that of the manifest for this machine. Nothing: of a form that we do not know, and hand to nobody.
std::optional<ImageManifest> ImagePull::manifests_from_registry(const RegistryClient& registry, std::string& digest) {
  for (int depth = 0; depth < 2; ++depth) {
    if (!store_.has(digest)) {
      const auto bytes = registry.manifest(digest);
      if (!bytes.ok() || !store_.keep(digest, *bytes).ok())
        return std::nullopt;
    }
    const auto bytes = store_.read(digest, kManifestMax);
    auto manifest = bytes.ok() ? parse_image_manifest(*bytes) : bytes.error();
    if (!manifest.ok())
      return std::nullopt;
    if (!manifest->is_index)
      return std::move(*manifest);
    const auto ours = manifest_for(*manifest, machine_here());
    if (!ours)
      return std::nullopt;
    digest = ours->digest;
  }
  return std::nullopt;
}

Result<void> ImagePull::take_from_registry(const std::string& digest, const std::string& layout) {
  const RegistryClient registry = TRY(RegistryClient::make(image_));
  std::string ours = digest;
  const auto manifest = manifests_from_registry(registry, ours);
  if (!manifest)
    return registry.copy(digest, layout, RegistryClient::Keep::kWhatCan, [this] { return room_.check(); });
  TRY(make_room(*manifest));
  // skopeo writes it anew for the layout, and so under another digest.
  if (manifest->is_dockers && peers_.reach && !store_.has(manifest->config.digest))
    if (const auto config = registry.config(ours); config.ok())
      TRY(store_.keep(manifest->config.digest, *config));
  PullProgress progress(bytes_of(*manifest), tell_);
  // Others ask for layers by the digests that they have in the registry.
  const auto keep = manifest->is_dockers ? RegistryClient::Keep::kWhatCan : RegistryClient::Keep::kDigests;
  return registry.copy(ours, layout, keep, [&] {
    progress.at(bytes_here(*manifest, store_, layout));
    return room_.check();
  });
}

}  // namespace lockstep
