// How much the objects of front ends may take together, namespace by namespace: no tenant fills the cluster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace lockstep {

struct ObjectShare {
  std::uint64_t objects_max = 100'000;
  std::uint64_t bytes_max = 1ull << 30;  // bodies, labels and annotations
  bool newest_stay = false;              // the oldest go to make room for a new one; else the new one is refused
};

struct ObjectShares {
  // Of all objects of a namespace together, and of all of one type outside of namespaces.
  ObjectShare each;
  // Types of which each namespace has a share of their own; they count in no other.
  std::map<std::string, ObjectShare, std::less<>> apart = {};
  // Of all together. As this fills, nobody gets more than is still free: whoever comes last finds room.
  ObjectShare all = {.objects_max = 1'000'000, .bytes_max = 8ull << 30};
};

// Error::field of a refusal because a share is used up (kExhausted).
inline constexpr std::string_view kObjectShareField = "object_share";

}  // namespace lockstep
