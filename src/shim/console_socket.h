// The socket at which the runtime hands over the terminal that it has made for a program (runc: docs/terminals.md).
#pragma once

#include <string>

namespace lockstep {

// Listens there, without waiting. A relative path is one of the working directory, since a socket's may not be long.
// -1: it cannot.
int listen_on_socket(const std::string& path);

// The terminal that was brought there, which does not block; -1: none was. Closes the socket.
int take_terminal(int& listener);

}  // namespace lockstep
