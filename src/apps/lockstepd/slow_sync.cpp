#include "apps/lockstepd/slow_sync.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "io/slow_sync_vfs.h"

namespace lockstep {

std::string slow_sync_vfs() {
  const char* text = std::getenv("LOCKSTEP_SYNC_DELAY_US");
  const auto asked = text ? parse_uint(text) : std::nullopt;
  if (!asked || *asked == 0)
    return {};
  return register_slow_sync_vfs(micros(static_cast<std::int64_t>(std::min<std::uint64_t>(*asked, 1'000'000))));
}

}  // namespace lockstep
