#include "container/layer_formats.h"

#include <errno.h>
#include <fcntl.h>
#include <zstd.h>

#include "base/plain_file.h"
#include "base/text.h"
#include "container/documents.h"
#include "container/image_manifest.h"

namespace lockstep {
namespace {

constexpr std::string_view kZstd = "+zstd";
constexpr std::size_t kIndexMax = 1 << 20, kPackedPiece = 1 << 20;
constexpr std::uint64_t kLookEvery = 16u << 20;  // bytes of a layer; a packed one says nothing of what it becomes

struct FreeDecoder {
  void operator()(ZSTD_DStream* decoder) const { ZSTD_freeDStream(decoder); }
};

// The bytes of one file, unpacked, into another, which is digested meanwhile.
class ZstdUnpacking {
 public:
  ZstdUnpacking(const OpenFile& to, std::string name, const LookAtRoom& look)
      : to_(to),
        name_(std::move(name)),
        look_(look),
        decoder_(ZSTD_createDStream()),
        out_(ZSTD_DStreamOutSize(), '\0') {}

  Result<void> add(std::string_view packed) {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    while (in.pos < in.size) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      left_ = ZSTD_decompressStream(decoder_.get(), &out, &in);
      if (ZSTD_isError(left_))
        return Error{Errc::kCorrupt, format("layer {}: {}", name_, ZSTD_getErrorName(left_)), {}};
      TRY(write(std::string_view(out_).substr(0, out.pos)));
      if (out.pos == out_.size() && in.pos == in.size && left_ != 0)
        TRY(flush());
    }
    return {};
  }
  // Of the unpacked bytes.
  Result<BlobInfo> finish() {
    if (left_ != 0)
      return Error{Errc::kCorrupt, format("layer {} ends too early", name_), {}};
    return BlobInfo{digest_.text(), size_, "application/vnd.oci.image.layer.v1.tar"};
  }

 private:
  // What the decoder still holds when all input was given to it.
  Result<void> flush() {
    ZSTD_inBuffer none{nullptr, 0, 0};
    for (;;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      left_ = ZSTD_decompressStream(decoder_.get(), &out, &none);
      if (ZSTD_isError(left_))
        return Error{Errc::kCorrupt, format("layer {}: {}", name_, ZSTD_getErrorName(left_)), {}};
      TRY(write(std::string_view(out_).substr(0, out.pos)));
      if (out.pos < out_.size())
        return {};
    }
  }
  Result<void> write(std::string_view bytes) {
    digest_.add(bytes);
    size_ += bytes.size();
    if (size_ >= next_look_) {
      TRY(look_(size_));
      next_look_ = size_ + kLookEvery;
    }
    while (!bytes.empty()) {
      const ssize_t size = ::write(to_.get(), bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR)
        continue;
      if (size <= 0)
        return os_error(name_);
      bytes.remove_prefix(static_cast<std::size_t>(size));
    }
    return {};
  }

  const OpenFile& to_;
  std::string name_;
  const LookAtRoom& look_;
  std::uint64_t next_look_ = kLookEvery;
  std::unique_ptr<ZSTD_DStream, FreeDecoder> decoder_;
  std::string out_;
  BlobDigest digest_;
  std::uint64_t size_ = 0;
  std::size_t left_ = 1;  // 0: a frame has come to its end
};

// That it is what the image means is umoci's to check, which knows the digest of the unpacked layer.
Result<BlobInfo> unpack_zstd(const BlobInfo& layer, const std::string& layout, const ImageBlobs& store,
                             const LookAtRoom& look) {
  const std::string tar = layout + "/layer.tar";
  const OpenFile from(TRY(open_plain(store.path(layer.digest), O_RDONLY)));
  const OpenFile to(::open(tar.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!to.valid())
    return os_error(tar);
  ZstdUnpacking unpacking(to, layer.digest, look);
  std::string piece(kPackedPiece, '\0');
  for (;;) {
    const ssize_t size = ::read(from.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0)
      return os_error(store.path(layer.digest));
    if (size == 0)
      break;
    TRY(unpacking.add(std::string_view(piece).substr(0, static_cast<std::size_t>(size))));
  }
  BlobInfo unpacked = TRY(unpacking.finish());
  if (::rename(tar.c_str(), store.path(unpacked.digest).c_str()) != 0)
    return os_error(tar);
  return unpacked;
}

Result<std::string> manifest_in(const std::string& layout) {
  const std::string text = TRY(read_plain(layout + "/index.json", Links::kRefused, kIndexMax));
  const YamlNode document = TRY(read_document(text, "index of the layout"));
  const auto images = children_of(document.child("manifests"));
  const std::string digest = images.size() == 1 ? text_of(images[0].child("digest")) : std::string();
  if (!is_blob_digest(digest))
    return Error{Errc::kCorrupt, format("{} has not one image", layout), {}};
  return digest;
}

Result<void> name_manifest(const std::string& layout, const std::string& manifest) {
  return write_file(
      layout + "/index.json",
      format(R"({{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
             R"("digest":"{}","size":{},"annotations":{{"org.opencontainers.image.ref.name":"image"}}}}]}})",
             blob_digest_of(manifest), manifest.size()));
}

}  // namespace

Result<std::vector<std::string>> make_layers_readable(const std::string& layout, const ImageBlobs& store,
                                                      const LookAtRoom& look) {
  const std::string digest = TRY(manifest_in(layout));
  std::vector<std::string> added;
  auto manifest = parse_image_manifest(TRY(store.read(digest, kManifestMax)));
  if (!manifest.ok())
    return added;  // of what we do not know umoci may make something
  for (BlobInfo& layer : manifest->layers)
    if (layer.type.ends_with(kZstd)) {
      layer = TRY(unpack_zstd(layer, layout, store, look));
      added.push_back(layer.digest);
    }
  if (added.empty())
    return added;
  const std::string rewritten = encode_oci_manifest(manifest->config, manifest->layers);
  TRY(store.keep(blob_digest_of(rewritten), rewritten));
  added.push_back(blob_digest_of(rewritten));
  TRY(name_manifest(layout, rewritten));
  return added;
}

}  // namespace lockstep
