// zstd, for blobs and snapshots: scripts and environments shrink to a third.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

std::string compress(std::string_view bytes);
Result<std::string> decompress(std::string_view bytes, std::size_t bytes_max);  // kCorrupt

}  // namespace lockstep
