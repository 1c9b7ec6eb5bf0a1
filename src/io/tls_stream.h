// TLS over any stream, the client's side, without looking at who the server is: for who was asked to reach a server
// that shows a certificate of its own making, as a pod's is.
#pragma once

#include <memory>

#include "ports/loop.h"

namespace lockstep {

// Null: there is no memory for it. What is written before the handshake is done waits for it.
std::unique_ptr<Stream> tls_over(std::unique_ptr<Stream> below);

}  // namespace lockstep
