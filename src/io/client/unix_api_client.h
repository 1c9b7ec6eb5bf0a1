// The command line's way to the cluster: HTTP/1.1 over a Unix socket, blocking, by hand. Nothing heavy is linked, so a
// static binary starts within a millisecond.
#pragma once

#include <memory>
#include <string>

#include "ports/http.h"

namespace lockstep {

// $LOCKSTEP_SOCKET, else /run/lockstep/api.sock, else $LOCKSTEP_DIR/api.sock, else $HOME/.lockstep/default/api.sock.
// Of the last three the first that exists; if none does, the last that applies.
std::string find_socket();

// kUnavailable when nothing listens; the message says where it looked and what to do.
Result<std::unique_ptr<ApiClient>> connect_unix(const std::string& path);

}  // namespace lockstep
