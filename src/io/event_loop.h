// The real EventLoop: one thread around Boost.Asio's io_context. Asio itself stays inside src/io/*.cpp.
#pragma once

#include <memory>

#include "ports/loop.h"

namespace lockstep {

std::unique_ptr<EventLoop> make_event_loop();

}  // namespace lockstep
