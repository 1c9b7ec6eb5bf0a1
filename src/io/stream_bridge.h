// A stream of the loop as a socket: for who speaks to sockets, and for TLS, which io/fd_stream.h has above them.
#pragma once

#include <memory>

#include "base/result.h"
#include "ports/loop.h"

namespace lockstep {

// A descriptor whose bytes go through the stream, and come from it. The caller owns it; the stream is closed when the
// descriptor is, and the other way round.
Result<int> bridge_to(EventLoop& loop, std::shared_ptr<Stream> stream);

}  // namespace lockstep
