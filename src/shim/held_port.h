// A port of the node that the packet filter leads elsewhere, held so that nobody listens there in vain, or is taken for
// whatever it leads to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

// A descriptor that holds the port while it is open, at an IPv4 address or at all of them (""). kConflict: somebody has
// it. kUnsupported: of this protocol nobody can have it here.
Result<int> hold_port(std::string_view protocol, const std::string& address, std::uint16_t port);

}  // namespace lockstep
