// What an image is made of, as a registry says: an index names a manifest for each kind of machine, a manifest names a
// configuration and layers, and all of them are named by their digests. Sources: OCI image specification 1.0 (manifest,
// image-index), Docker's "Image Manifest V 2, Schema 2".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct BlobInfo {
  std::string digest;
  std::uint64_t size = 0;
  std::string type;  // media type
  friend bool operator==(const BlobInfo&, const BlobInfo&) = default;
};

struct ImageManifest {
  struct ForMachine {
    BlobInfo manifest;
    std::string os, architecture, variant;
  };
  bool is_index = false;
  std::vector<ForMachine> machines;  // of an index
  BlobInfo config;                   // of a manifest, with its layers from the lowest up
  std::vector<BlobInfo> layers;
  bool is_dockers = false;  // of Docker's own types, which skopeo rewrites for an OCI layout
};

inline constexpr std::size_t kManifestMax = 4 << 20;  // bytes; registries take no more
inline constexpr std::size_t kLayersMax = 1024;

// kInvalid: it is neither, or names what is no SHA-256.
Result<ImageManifest> parse_image_manifest(std::string_view json);

// Of an index, the manifest for Linux on a machine as uname(2) calls it ("x86_64", "aarch64").
std::optional<BlobInfo> manifest_for(const ImageManifest& index, std::string_view machine);

// Of all blobs of a manifest together.
std::uint64_t bytes_of(const ImageManifest& manifest);

// An OCI manifest of these parts.
std::string encode_oci_manifest(const BlobInfo& config, const std::vector<BlobInfo>& layers);

}  // namespace lockstep
