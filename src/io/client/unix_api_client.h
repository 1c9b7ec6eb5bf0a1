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

// The installed controller's, and that of a node's agent (docs/decisions/0009-installed.md).
inline constexpr const char* kSocketsOfTheMachine[] = {"/run/lockstep/api.sock", "/run/lockstep-agent/api.sock"};

// $LOCKSTEP_SOCKET, else $LOCKSTEP_DIR/api.sock, else the first of this machine that is there, else
// $HOME/.lockstep/default/api.sock.
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
