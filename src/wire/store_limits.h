// How much of a node's disk the images and containers of its users may take: a file that the agent writes beside their
// folders, for the programs that fill them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

struct StoreLimits {
  std::int64_t user_mb = 0;         // of each user's images and containers; 0 = half of the file system
  std::uint32_t free_percent = 10;  // of the file system, which images leave to others
};

inline constexpr const char* kStoreLimitsFile = "limits";  // in the folder above the users' own

std::string encode(const StoreLimits& limits);
// What is missing or makes no sense has its default.
StoreLimits decode_store_limits(std::string_view text);

// What one user may have of a file system of this size, in bytes.
std::int64_t user_bytes(const StoreLimits& limits, std::int64_t file_system_bytes);

}  // namespace lockstep
