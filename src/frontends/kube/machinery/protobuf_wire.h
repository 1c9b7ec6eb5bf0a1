// Internal to protobuf_*.cpp and openapi_document.cpp: the wire format of protobuf (protobuf.dev, "Encoding").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::kube {

enum class WireType : unsigned char { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}
inline void put_tag(std::string& out, std::uint32_t number, WireType type) {
  put_varint(out, std::uint64_t{number} << 3 | static_cast<unsigned>(type));
}
inline void put_number(std::string& out, std::uint32_t number, std::uint64_t value) {
  put_tag(out, number, WireType::kVarint);
  put_varint(out, value);
}
inline void put_bytes(std::string& out, std::uint32_t number, std::string_view bytes) {
  put_tag(out, number, WireType::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// One field of a message.
struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;  // of numbers
  std::string_view bytes;   // kBytes
};

// Takes varints and fields off the front of bytes; false: they are cut off, or of no known wire type.
bool take_varint(std::string_view& bytes, std::uint64_t& value);
bool take_field(std::string_view& bytes, WireField& field);

}  // namespace lockstep::kube
