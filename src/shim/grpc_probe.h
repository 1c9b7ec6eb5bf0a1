// One question of gRPC's health checking protocol (grpc.health.v1.Health/Check), over a connection without TLS. What of
// HTTP/2 (RFC 9113), HPACK (RFC 7541) and protocol buffers that takes is little, and is all there is here.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The bytes that ask: preface, settings, head and message.
std::string grpc_health_question(const std::string& authority, const std::string& service);
// Whether what was answered so far says SERVING; nothing else is looked at. Feeds on whole frames.
enum class GrpcHealth : unsigned char { kUnknown, kServing, kOtherwise };
GrpcHealth grpc_health_in(std::string_view answer);

// Takes the connection. Blocks for as long as the other side does.
bool grpc_is_serving(int fd, const std::string& authority, const std::string& service);

}  // namespace lockstep
