// One question to a server over TLS, and whether it answers well: what a probe or a hook of a container is, where its
// shim, which speaks no TLS, asks for it. Who the server is does not matter.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// socket: connected. request: the whole text of it. True: the answer's status is 200 to 399.
bool https_answers_well(int socket, const std::string& request);

// The program that a shim becomes for it (`lockstep-agent https-look`): the socket is its standard input, the request
// what it reads from descriptor 3.
inline constexpr const char* kHttpsLook = "https-look";
inline constexpr int kHttpsLookRequestFd = 3;
int run_https_look();

}  // namespace lockstep
