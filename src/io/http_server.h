// The HTTP server: listeners, sessions and their limits. HTTP/1.1 with keep-alive and pipelining, on Unix sockets
// (identity by the kernel) and TLS (identity by client certificate).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ports/http.h"

namespace lockstep {

// What an operator should see: refused certificates, a full descriptor table. One line, without a time stamp.
using HttpNotice = std::function<void(const std::string&)>;

// Raises the process's descriptor limit as far as it may. Without a notice, lines go to standard error. The handler is
// called on the loop's thread; destroying the server closes every connection except upgraded ones.
std::unique_ptr<HttpServer> make_http_server(EventLoop& loop, HttpHandler handler, HttpLimits limits = {},
                                             HttpNotice notice = {});

}  // namespace lockstep
