// A local client's request as an agent forwards it to the controller, and the answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kApiInlineMax = 64 << 10;  // of a body in one frame with its head

struct ApiCall {
  std::string method, target;  // target with its query
  std::string body;
  std::uint64_t bytes = 0;  // of the body, when it follows as the data of a stream; else 0
  std::string upgrade;      // protocol asked for; "" = a plain request
  std::uint32_t uid = 0, gid = 0;
  std::int32_t pid = 0;  // as the agent's kernel proved it
};
struct ApiReply {
  int status = 0;  // 101: upgraded, the stream of this id follows
  std::string content_type, body;
  std::uint64_t bytes = 0;  // as above
};
// Bodies travel raw behind a one-line JSON head, so that nothing is escaped twice.
std::string encode(const ApiCall& call);
std::string encode(const ApiReply& reply);
Result<ApiCall> decode_api_call(std::string_view bytes);
Result<ApiReply> decode_api_reply(std::string_view bytes);

}  // namespace lockstep
