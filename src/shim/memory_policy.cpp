#include "shim/memory_policy.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "base/text.h"

namespace lockstep {
namespace {

constexpr std::size_t kPartsMost = 4096;  // of a list: tasks of a step on a node

MemoryNodes node_of(std::string_view word) {
  MemoryNodes out;
  if (const auto number = parse_uint(word); number && *number < MemoryNodes::kCapacity)
    out.set(static_cast<std::uint32_t>(*number));
  return out;
}

// Hexadecimal, with or without "0x".
MemoryNodes nodes_of_mask(std::string_view word) {
  MemoryNodes out;
  if (word.starts_with("0x") || word.starts_with("0X"))
    word.remove_prefix(2);
  std::uint32_t bit = 0;
  for (auto digit = word.rbegin(); digit != word.rend() && bit < MemoryNodes::kCapacity; ++digit, bit += 4) {
    unsigned value = 0;
    if (std::from_chars(&*digit, &*digit + 1, value, 16).ec != std::errc{})
      return {};
    for (std::uint32_t i = 0; i < 4; ++i)
      if (value >> i & 1)
        out.set(bit + i);
  }
  return out;
}

// "0*2,1" stands for "0,0,1".
std::vector<std::string> spread(const std::vector<std::string>& list) {
  std::vector<std::string> out;
  for (const std::string& item : list) {
    const auto star = item.find('*');
    const std::uint64_t times = star == item.npos ? 1 : parse_uint(std::string_view(item).substr(star + 1)).value_or(1);
    for (std::uint64_t i = 0; i < times && out.size() < kPartsMost; ++i) out.push_back(item.substr(0, star));
  }
  return out;
}

}  // namespace

MemoryPolicy memory_policy(std::string_view binding, std::uint32_t local_rank) {
  MemoryPolicy out;
  bool preferred = false;
  std::string kind;
  std::vector<std::string> list;
  for (const std::string& part : split(lower(binding), ',')) {
    const auto colon = part.find(':');
    if (!list.empty()) {
      list.push_back(part);
    } else if (colon != part.npos) {
      kind = part.substr(0, colon);
      list.push_back(part.substr(colon + 1));
    } else if (part == "prefer" || part == "p") {
      preferred = true;
    } else if (part == "local" || part == "rank") {
      kind = part;
    }
  }
  if (kind == "local") {
    out.mode = MemoryPolicy::Mode::kLocal;
    return out;
  }
  const std::vector<std::string> parts = spread(list);
  if (kind == "rank")
    out.nodes = node_of(std::to_string(local_rank));
  else if (kind == "map_mem" && !parts.empty())
    out.nodes = node_of(parts[local_rank % parts.size()]);
  else if (kind == "mask_mem" && !parts.empty())
    out.nodes = nodes_of_mask(parts[local_rank % parts.size()]);
  if (out.nodes.any())
    out.mode = preferred ? MemoryPolicy::Mode::kPreferred : MemoryPolicy::Mode::kBound;
  return out;
}

bool set_memory_policy(const MemoryPolicy& policy) {
  constexpr std::size_t kWordBits = 8 * sizeof(unsigned long);
  unsigned long words[MemoryNodes::kCapacity / kWordBits + 1] = {};
  policy.nodes.for_each([&words](std::uint32_t node) { words[node / kWordBits] |= 1UL << (node % kWordBits); });
  switch (policy.mode) {
    case MemoryPolicy::Mode::kNone: return true;
    case MemoryPolicy::Mode::kLocal: return ::syscall(SYS_set_mempolicy, MPOL_LOCAL, nullptr, 0UL) == 0;
    case MemoryPolicy::Mode::kBound:
      return ::syscall(SYS_set_mempolicy, MPOL_BIND, words, MemoryNodes::kCapacity + 1UL) == 0;
    case MemoryPolicy::Mode::kPreferred:
      return ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, words, MemoryNodes::kCapacity + 1UL) == 0;
  }
  return false;
}

}  // namespace lockstep
