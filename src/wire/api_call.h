// A local client's request as an agent forwards it to the controller, and the answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kApiInlineMax = 64 << 10;    // of a body in one frame with its head
inline constexpr std::size_t kApiHeadersMax = 16;         // of a call or an answer
inline constexpr std::size_t kApiHeaderBytes = 16 << 10;  // of all together

// What a client says of its body and of the answer it wants travels with a call; who it is, is for the agent to say.
inline constexpr std::string_view kForwardedHeaders[] = {"accept", "accept-encoding", "content-encoding",
                                                         "content-type", "user-agent"};

struct ApiCall {
  std::string method, target;  // target with its query
  std::string body;
  std::uint64_t bytes = 0;  // of the body, when it follows as the data of a stream; else 0
  std::string upgrade;      // protocol asked for; "" = a plain request
  std::vector<std::pair<std::string, std::string>> headers;  // of kForwardedHeaders
  std::uint32_t uid = 0, gid = 0;
  std::int32_t pid = 0;  // as the agent's kernel proved it
};
struct ApiReply {
  int status = 0;  // 101: upgraded, the stream of this id follows
  std::string content_type, body;
  std::uint64_t bytes = 0;  // as above
  bool stream = false;      // the body follows as the stream of this id, for as long as it lasts
  std::vector<std::pair<std::string, std::string>> headers;  // beside the content's type
};
// Bodies travel raw behind a one-line JSON head, so that nothing is escaped twice.
std::string encode(const ApiCall& call);
std::string encode(const ApiReply& reply);
Result<ApiCall> decode_api_call(std::string_view bytes);
Result<ApiReply> decode_api_reply(std::string_view bytes);

}  // namespace lockstep
