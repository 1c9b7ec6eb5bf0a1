// Objects as protobuf: what typed clients send and like to get (application/vnd.kubernetes.protobuf).
//
// A body is the four bytes "k8s\0" and a message `Unknown`: apiVersion and kind, and the object's own message. Messages
// follow the tables of built-in kinds; custom resources have none. What is encoded is byte for byte what Kubernetes'
// own encoder writes: fields ascending, those that are no pointers even when they are empty.
// Sources: k8s.io/apimachinery, pkg/runtime/generated.proto, pkg/runtime/serializer/protobuf.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "frontends/kube/machinery/schema.h"

namespace lockstep::kube {

inline constexpr std::size_t kProtobufDepthMax = 64;  // messages in messages; schemas of custom resources nest deepest
inline constexpr std::size_t kProtobufValuesMax = 500'000;  // values that one body may become
inline constexpr std::size_t kProtobufBytesMax = 64u << 20;

bool is_protobuf_body(std::string_view bytes);

// A whole body. A kind or version that it lacks is `api_version`'s and `kind`'s, as the request's path says them.
// Errors: kInvalid, the bytes are none or too many; kNotFound, a kind that the tables lack.
Result<json::object> decode_protobuf(std::string_view bytes, std::string_view api_version = {},
                                     std::string_view kind = {});

// Error: the kind is not in the tables (kNotFound), a value does not fit its field (kInvalid).
Result<std::string> encode_protobuf(const json::object& object);

// The same of a message that is encoded already.
std::string protobuf_envelope(std::string_view api_version, std::string_view kind, std::string_view message);

// One message without its envelope.
Result<json::object> decode_message(std::string_view bytes, const Schema& schema);
Result<std::string> encode_message(const json::object& object, const Schema& schema);

// Adds an object to the message of a list, behind its metadata.
void append_list_metadata(std::string& message, std::string_view metadata);
void append_list_item(std::string& message, std::string_view item);

// An event of a watch as it stands in the stream: four bytes of length, big-endian, and a message WatchEvent, whose
// object is a body of its own.
std::string watch_frame(std::string_view type, std::string_view body);

}  // namespace lockstep::kube
