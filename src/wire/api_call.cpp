// Forwarded calls: one line of JSON, then the body as it is.
#include "wire/api_call.h"

#include "wire/fields.h"

namespace lockstep {

namespace wire {

template <class V>
constexpr void describe(V& v, const ApiCall*) {
  v.always("method", &ApiCall::method);
  v.always("target", &ApiCall::target);
  v("bytes", &ApiCall::bytes);
  v("upgrade", &ApiCall::upgrade);
  v("headers", &ApiCall::headers, Pairs{kApiHeadersMax, kApiHeaderBytes});
  v.always("uid", &ApiCall::uid);
  v.always("gid", &ApiCall::gid);
  v("pid", &ApiCall::pid);
}

template <class V>
constexpr void describe(V& v, const ApiReply*) {
  v.always("status", &ApiReply::status, Between{100, 599});
  v("content_type", &ApiReply::content_type);
  v("bytes", &ApiReply::bytes);
  v("stream", &ApiReply::stream);
  v("headers", &ApiReply::headers, Pairs{kApiHeadersMax, kApiHeaderBytes});
}

template <>
inline constexpr std::size_t kUnwritten<ApiCall> = 1;  // the body
template <>
inline constexpr std::size_t kUnwritten<ApiReply> = 1;

namespace {

template <class T>
std::string encode_with_body(const T& message) {
  std::string out = encode_value(message);
  out += '\n';
  out += message.body;
  return out;
}

// Our encoder escapes line breaks, so the first one ends the head.
template <class T>
Result<T> decode_with_body(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos)
    return invalid("a forwarded call has no end of its head");
  T message = TRY(decode_value<T>(bytes.substr(0, end), Origin::kStranger));
  message.body = bytes.substr(end + 1);
  return message;
}

}  // namespace

}  // namespace wire

std::string encode(const ApiCall& call) { return wire::encode_with_body(call); }
std::string encode(const ApiReply& reply) { return wire::encode_with_body(reply); }

Result<ApiCall> decode_api_call(std::string_view bytes) {
  auto call = TRY(wire::decode_with_body<ApiCall>(bytes));
  if (call.method.empty() || !call.target.starts_with('/'))
    return invalid("a forwarded call needs a method and a target that begins with '/'", "target");
  return call;
}
Result<ApiReply> decode_api_reply(std::string_view bytes) { return wire::decode_with_body<ApiReply>(bytes); }

}  // namespace lockstep
