#include "container/image_manifest.h"

#include "base/text.h"
#include "container/blob_digest.h"
#include "container/documents.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kBlobMax = 1ull << 40;  // a terabyte: more is a mistake

Result<BlobInfo> read_blob_info(const YamlNode* node, std::string_view what) {
  BlobInfo blob;
  if (!node || node->shape != YamlNode::Shape::kMap)
    return invalid(format("image manifest: {} is missing", what));
  blob.digest = text_of(node->child("digest"));
  blob.type = text_of(node->child("mediaType"));
  const auto size = parse_uint(text_of(node->child("size")));
  if (!is_blob_digest(blob.digest) || !size || *size > kBlobMax)
    return invalid(format("image manifest: {} has no SHA-256 or no size", what));
  blob.size = *size;
  return blob;
}

Result<ImageManifest> read_index(const YamlNode& list) {
  ImageManifest index;
  index.is_index = true;
  for (const YamlNode& entry : list.children) {
    ImageManifest::ForMachine machine;
    machine.manifest = TRY(read_blob_info(&entry, "a manifest of the index"));
    if (const YamlNode* platform = entry.child("platform")) {
      machine.os = text_of(platform->child("os"));
      machine.architecture = text_of(platform->child("architecture"));
      machine.variant = text_of(platform->child("variant"));
    }
    index.machines.push_back(std::move(machine));
  }
  return index;
}

// As Go calls what the kernel calls so, and what images are made for.
std::string_view architecture_of(std::string_view machine) {
  if (machine == "x86_64")
    return "amd64";
  if (machine == "aarch64")
    return "arm64";
  return machine;
}

std::string descriptor(const BlobInfo& blob) {
  return format(R"({{"mediaType":"{}","digest":"{}","size":{}}})", blob.type, blob.digest, blob.size);
}

}  // namespace

Result<ImageManifest> parse_image_manifest(std::string_view json) {
  if (json.size() > kManifestMax)
    return invalid(format("image manifest: it is longer than {} bytes", kManifestMax));
  const YamlNode document = TRY(read_document(json, "image manifest"));
  if (const YamlNode* list = document.child("manifests"); list && list->shape == YamlNode::Shape::kList)
    return read_index(*list);
  ImageManifest manifest;
  manifest.config = TRY(read_blob_info(document.child("config"), "the configuration"));
  manifest.is_dockers = manifest.config.type.starts_with("application/vnd.docker.");
  const auto layers = children_of(document.child("layers"));
  if (layers.size() > kLayersMax)
    return invalid(format("image manifest: it has more than {} layers", kLayersMax));
  for (const YamlNode& layer : layers) manifest.layers.push_back(TRY(read_blob_info(&layer, "a layer")));
  return manifest;
}

std::optional<BlobInfo> manifest_for(const ImageManifest& index, std::string_view machine) {
  const std::string_view wanted = architecture_of(machine);
  for (const ImageManifest::ForMachine& entry : index.machines)
    if (entry.os == "linux" && entry.architecture == wanted && (entry.variant.empty() || entry.variant == "v8"))
      return entry.manifest;
  return std::nullopt;
}

std::uint64_t bytes_of(const ImageManifest& manifest) {
  std::uint64_t bytes = manifest.config.size;
  for (const BlobInfo& layer : manifest.layers) bytes += layer.size;
  return bytes;
}

std::string encode_oci_manifest(const BlobInfo& config, const std::vector<BlobInfo>& layers) {
  std::string list;
  for (const BlobInfo& layer : layers) list += (list.empty() ? "" : ",") + descriptor(layer);
  return format(
      R"({{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[{}]}})",
      descriptor(config), list);
}

}  // namespace lockstep
