// The command line's way to the cluster: HTTP/1.1 over a Unix socket, blocking, by hand. Nothing heavy is linked, so a
// static binary starts within a millisecond.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ports/http.h"

namespace lockstep {

// $LOCKSTEP_SOCKET, else /run/lockstep/api.sock, else $LOCKSTEP_DIR/api.sock, else $HOME/.lockstep/default/api.sock.
// Of the last three the first that exists; if none does, the last that applies.
std::string find_socket();

// kUnavailable when nothing listens; the message says where it looked and what to do.
Result<std::unique_ptr<ApiClient>> connect_unix(const std::string& path);

// How long a controller that crashed, and is started again, is waited for; and who is told of a wait that gets long.
struct Patience {
  Duration away{};
  Duration quiet = seconds(1);
  std::function<void(std::string_view)> tell{};
};
// The same at the first of the paths where somebody listens.
Result<std::unique_ptr<ApiClient>> connect_patiently(const std::vector<std::string>& paths, const Patience& patience);

}  // namespace lockstep
