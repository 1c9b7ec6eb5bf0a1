#include "shim/grpc_probe.h"

#include <sys/socket.h>

#include <cstdint>

namespace lockstep {
namespace {

constexpr std::uint8_t kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kGoAway = 7;
constexpr std::uint8_t kEndStream = 1, kEndHeaders = 4, kPadded = 8;
constexpr std::size_t kHead = 9, kAnswerMax = 64 << 10, kWordMax = 126;

std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  for (const int shift : {16, 8, 0}) out.push_back(static_cast<char>(payload.size() >> shift & 0xff));
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(stream >> shift & 0xff));
  return out.append(payload);
}

// Without the tables: a literal that is not kept, name and value as they are, each of less than 127 bytes.
void add_field(std::string& block, std::string_view name, std::string_view value) {
  block.push_back(0);
  block.push_back(static_cast<char>(name.size()));
  block.append(name);
  block.push_back(static_cast<char>(value.size()));
  block.append(value);
}

}  // namespace

std::string grpc_health_question(const std::string& authority, const std::string& service) {
  std::string block;
  add_field(block, ":method", "POST");
  add_field(block, ":scheme", "http");
  add_field(block, ":path", "/grpc.health.v1.Health/Check");
  add_field(block, ":authority", std::string_view(authority).substr(0, kWordMax));
  add_field(block, "content-type", "application/grpc");
  add_field(block, "te", "trailers");
  std::string message;
  if (const std::string_view name = std::string_view(service).substr(0, kWordMax); !name.empty()) {
    message.push_back(0x0a);  // field 1, a text
    message.push_back(static_cast<char>(name.size()));
    message.append(name);
  }
  std::string data(4, '\0');  // not packed, and three bytes of its length
  data.push_back(static_cast<char>(message.size()));
  data += message;
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, {}) + frame(kHeaders, kEndHeaders, 1, block) +
         frame(kData, kEndStream, 1, data);
}

GrpcHealth grpc_health_in(std::string_view answer) {
  constexpr std::size_t kMessageHead = 5;
  while (answer.size() >= kHead) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(answer[i]); };
    const std::size_t size = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
    const std::uint8_t type = byte(3), flags = byte(4);
    if (answer.size() < kHead + size)
      return GrpcHealth::kUnknown;
    std::string_view payload = answer.substr(kHead, size);
    if (type == kReset || type == kGoAway)
      return GrpcHealth::kOtherwise;
    if (type == kData) {
      if ((flags & kPadded) != 0 && !payload.empty())
        payload.remove_prefix(1);
      // HealthCheckResponse: field 1 is its status, and 1 means SERVING.
      const bool serves =
          payload.size() >= kMessageHead + 2 && payload[kMessageHead] == 0x08 && payload[kMessageHead + 1] == 1;
      return serves ? GrpcHealth::kServing : GrpcHealth::kOtherwise;
    }
    if (type == kHeaders && (flags & kEndStream) != 0)
      return GrpcHealth::kOtherwise;  // an error, without a message
    answer.remove_prefix(kHead + size);
  }
  return GrpcHealth::kUnknown;
}

bool grpc_is_serving(int fd, const std::string& authority, const std::string& service) {
  const std::string question = grpc_health_question(authority, service);
  for (std::size_t at = 0; at < question.size();) {
    const ssize_t n = ::send(fd, question.data() + at, question.size() - at, MSG_NOSIGNAL);
    if (n <= 0)
      return false;
    at += static_cast<std::size_t>(n);
  }
  std::string answer;
  char chunk[4096];
  for (ssize_t n; answer.size() < kAnswerMax && (n = ::recv(fd, chunk, sizeof chunk, 0)) > 0;) {
    answer.append(chunk, static_cast<std::size_t>(n));
    if (const GrpcHealth health = grpc_health_in(answer); health != GrpcHealth::kUnknown)
      return health == GrpcHealth::kServing;
  }
  return false;
}

}  // namespace lockstep
