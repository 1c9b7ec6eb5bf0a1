#include "io/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"
#include "io/sha256.h"

namespace lockstep {

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t n = getrandom(raw.data() + have, bytes - have, 0);
    CHECK(n > 0 || errno == EINTR, "the kernel gives no randomness");
    if (n > 0)
      have += static_cast<std::size_t>(n);
  }
  return hex(raw);
}

}  // namespace lockstep
