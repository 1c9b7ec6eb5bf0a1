// What the other files of src/io need to know of the loop made by make_event_loop(). Not for users above.
#pragma once

#include <span>

#include "ports/loop.h"

namespace boost::asio {
class io_context;
}

namespace lockstep {

// CHECKs that the loop is ours.
boost::asio::io_context& context_of(EventLoop& loop);

// One buffer for everybody who reads on the loop's thread: ten thousand silent connections hold none of their own.
// Valid until the reader returns to the loop.
std::span<char> read_buffer_of(EventLoop& loop);

}  // namespace lockstep
