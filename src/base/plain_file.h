// Opening what must be a regular file. Under a name in one of our directories there may lie something else by the time
// we come: a FIFO would hold the opener up for as long as nobody writes to it, a device may do worse, a link leads
// elsewhere. None of them is waited for or followed.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

enum class Links : unsigned char { kRefused, kFollowed };  // kFollowed: a path that a person named

// The descriptor, close-on-exec. kNotFound when there is nothing; kDenied when it is no regular file; kIo else. errno
// is set in every case.
Result<int> open_plain(const std::string& path, int flags, unsigned mode = 0600, Links links = Links::kRefused);

// All of it. kExhausted when it is longer than `most` bytes.
Result<std::string> read_plain(const std::string& path, Links links = Links::kRefused, std::size_t most = 64 << 20);

}  // namespace lockstep
