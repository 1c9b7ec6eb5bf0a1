// Memory asked for before it is needed: loops over a million jobs in the order of the queue would otherwise spend most
// of their time waiting for it.
#pragma once

#include <cstddef>

namespace lockstep {

inline void fetch(const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  asm volatile("" : : "r"(from));  // else GCC 12 takes the function for one without effect
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(static_cast<const char*>(from) + at);
}

}  // namespace lockstep
