// When a node counts as running short of something, as its settings say.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace lockstep {

// The least that is to be left: an amount, or a share of all. Both 0: it never runs short.
struct ShortageBound {
  std::int64_t amount = 0;  // bytes, files or processes
  std::uint32_t percent = 0;
  friend bool operator==(const ShortageBound&, const ShortageBound&) = default;
};

// "10%", "100Mi", "1G", "5000"; "" and "0" = never.
Result<ShortageBound> parse_shortage_bound(std::string_view text);

}  // namespace lockstep
