// Layers in forms that umoci does not read become those that it does: zstd is unpacked.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "container/image_blobs.h"

namespace lockstep {

// Asked while a layer is unpacked, of which so many bytes are written: whether there is room for them.
using LookAtRoom = std::function<Result<void>(std::uint64_t written)>;

// layout: an OCI layout with one image, called "image", whose blobs are the store's. What was added to the store is
// named, for whoever removes it again when the image is unpacked.
Result<std::vector<std::string>> make_layers_readable(const std::string& layout, const ImageBlobs& store,
                                                      const LookAtRoom& look);

}  // namespace lockstep
