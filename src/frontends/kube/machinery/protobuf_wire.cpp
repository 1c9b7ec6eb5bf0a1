#include "frontends/kube/machinery/protobuf_wire.h"

namespace lockstep::kube {
namespace {

bool take_fixed(std::string_view& bytes, std::size_t size, std::uint64_t& value) {
  if (bytes.size() < size)
    return false;
  value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  bytes.remove_prefix(size);
  return true;
}

}  // namespace

bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  value = 0;
  for (std::size_t i = 0; i < 10 && i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (i == 9 && byte > 1)
      return false;
    value |= std::uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool take_field(std::string_view& bytes, WireField& field) {
  std::uint64_t tag = 0;
  if (!take_varint(bytes, tag) || tag >> 3 == 0 || tag >> 32 != 0)
    return false;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  field.bytes = {};
  switch (field.type) {
    case WireType::kVarint: return take_varint(bytes, field.value);
    case WireType::kFixed64: return take_fixed(bytes, 8, field.value);
    case WireType::kFixed32: return take_fixed(bytes, 4, field.value);
    case WireType::kBytes: {
      if (!take_varint(bytes, field.value) || field.value > bytes.size())
        return false;
      field.bytes = bytes.substr(0, field.value);
      bytes.remove_prefix(field.value);
      return true;
    }
  }
  return false;
}

}  // namespace lockstep::kube
