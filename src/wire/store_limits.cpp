#include "wire/store_limits.h"

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kUserMb = "user_mb ", kFreePercent = "free_percent ";
constexpr std::int64_t kMbMax = std::int64_t{1} << 40;

}  // namespace

std::string encode(const StoreLimits& limits) {
  return format("{}{}\n{}{}\n", kUserMb, limits.user_mb, kFreePercent, limits.free_percent);
}

StoreLimits decode_store_limits(std::string_view text) {
  StoreLimits limits;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = line;
    if (words.starts_with(kUserMb)) {
      if (const auto mb = parse_uint(words.substr(kUserMb.size())); mb && *mb <= static_cast<std::uint64_t>(kMbMax))
        limits.user_mb = static_cast<std::int64_t>(*mb);
    } else if (words.starts_with(kFreePercent)) {
      if (const auto percent = parse_uint(words.substr(kFreePercent.size())); percent && *percent < 100)
        limits.free_percent = static_cast<std::uint32_t>(*percent);
    }
  }
  return limits;
}

std::int64_t user_bytes(const StoreLimits& limits, std::int64_t file_system_bytes) {
  return limits.user_mb > 0 ? limits.user_mb << 20 : file_system_bytes / 2;
}

}  // namespace lockstep
