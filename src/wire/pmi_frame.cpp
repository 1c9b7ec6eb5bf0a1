#include "wire/pmi_frame.h"

namespace lockstep {
namespace {

constexpr std::size_t kUpHead = 25, kDownHead = 17;

void append_number(std::string& out, std::uint64_t value) {
  for (int i = 7; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
}

std::uint64_t number_from(std::string_view payload, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + 8; ++i) value = value << 8 | static_cast<unsigned char>(payload[i]);
  return value;
}

// What lies beyond cannot be counted on.
bool may_be_offset(std::uint64_t offset) { return offset < std::uint64_t{1} << 62; }

}  // namespace

std::string encode(const PmiUp& up) {
  std::string out;
  out.push_back(up.fresh ? 1 : 0);
  for (const auto number : {up.offset, up.got_own, up.got_all}) append_number(out, number);
  return out.append(up.bytes);
}

std::optional<PmiUp> decode_pmi_up(std::string_view payload) {
  if (payload.size() < kUpHead)
    return std::nullopt;
  PmiUp up;
  up.fresh = payload[0] != 0;
  up.offset = number_from(payload, 1);
  up.got_own = number_from(payload, 9);
  up.got_all = number_from(payload, 17);
  up.bytes = payload.substr(kUpHead);
  if (!may_be_offset(up.offset) || !may_be_offset(up.got_own) || !may_be_offset(up.got_all))
    return std::nullopt;
  return up;
}

std::string encode(const PmiDown& down) {
  std::string out;
  out.push_back(down.to_all ? 1 : 0);
  for (const auto number : {down.offset, down.got}) append_number(out, number);
  return out.append(down.bytes);
}

std::optional<PmiDown> decode_pmi_down(std::string_view payload) {
  if (payload.size() < kDownHead)
    return std::nullopt;
  PmiDown down;
  down.to_all = payload[0] != 0;
  down.offset = number_from(payload, 1);
  down.got = number_from(payload, 9);
  down.bytes = payload.substr(kDownHead);
  if (!may_be_offset(down.offset) || !may_be_offset(down.got))
    return std::nullopt;
  return down;
}

}  // namespace lockstep
