// Layers in forms that umoci does not read become those that it does: zstd is unpacked.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "container/blob_store.h"

namespace lockstep {

// layout: an OCI layout with one image, called "image", whose blobs are the store's. What was added to the store is
// named, for whoever removes it again when the image is unpacked.
Result<std::vector<std::string>> make_layers_readable(const std::string& layout, const BlobStore& store);

}  // namespace lockstep
