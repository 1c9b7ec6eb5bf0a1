#include "io/compress.h"

#include <zstd.h>

#include "base/text.h"

namespace lockstep {

namespace {
constexpr int kLevel = 1;  // commits wait for it
}

std::string compress(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t n = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kLevel);
  CHECK(!ZSTD_isError(n), ZSTD_getErrorName(n));
  out.resize(n);
  return out;
}

Result<std::string> decompress(std::string_view bytes, std::size_t bytes_max) {
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > bytes_max)
    return Error{Errc::kCorrupt, "compressed bytes have no valid frame", {}};
  std::string out(size, '\0');
  const std::size_t n = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(n) || n != size)
    return Error{Errc::kCorrupt, format("compressed bytes are damaged: {}", ZSTD_getErrorName(n)), {}};
  return out;
}

}  // namespace lockstep
