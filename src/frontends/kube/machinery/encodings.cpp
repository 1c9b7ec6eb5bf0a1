#include "frontends/kube/machinery/encodings.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/text.h"

namespace lockstep::kube {
namespace {

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto kBase64Values = [] {
  std::array<signed char, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kBase64.size(); ++i)
    values[static_cast<unsigned char>(kBase64[i])] = static_cast<signed char>(i);
  return values;
}();

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};
constexpr Unit kUnits[] = {{"ns", 1},         {"us", 1'000},        {"µs", 1'000},         {"μs", 1'000},
                           {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}};

// "1.5", "2": a whole number and as many decimals as are not zero.
std::string decimal_text(std::uint64_t whole, std::uint64_t fraction, int digits) {
  std::string out = std::to_string(whole);
  if (fraction == 0)
    return out;
  std::string decimals = format("{:0{}}", fraction, digits);
  decimals.erase(decimals.find_last_not_of('0') + 1);
  return out + "." + decimals;
}

bool take_digits(std::string_view& text, std::string_view& digits) {
  std::size_t end = 0;
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  digits = text.substr(0, end);
  text.remove_prefix(end);
  return end != 0;
}

}  // namespace

std::string base64_text(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= count ? kBase64[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::string> bytes_of_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  int count = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r')
      continue;
    if (c == '=') {
      if (count < 2 || count + ++padding > 4)
        return std::nullopt;
      continue;
    }
    const int value = kBase64Values[static_cast<unsigned char>(c)];
    if (value < 0 || padding != 0)
      return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(value);
    if (++count < 4)
      continue;
    out += {static_cast<char>(group >> 16), static_cast<char>(group >> 8), static_cast<char>(group)};
    group = 0;
    count = 0;
  }
  if (count + padding != (count == 0 ? 0 : 4))
    return std::nullopt;
  if (count >= 2)
    out += static_cast<char>(group << (4 - count) * 6 >> 16);
  if (count == 3)
    out += static_cast<char>(group << 6 >> 8);
  return out;
}

std::string duration_text(std::int64_t nanoseconds) {
  if (nanoseconds == 0)
    return "0s";
  const bool negative = nanoseconds < 0;
  const std::uint64_t size =
      negative ? ~static_cast<std::uint64_t>(nanoseconds) + 1 : static_cast<std::uint64_t>(nanoseconds);
  std::string out = negative ? "-" : "";
  if (size < 1'000)
    return out + format("{}ns", size);
  if (size < 1'000'000)
    return out + decimal_text(size / 1'000, size % 1'000, 3) + "µs";
  if (size < 1'000'000'000)
    return out + decimal_text(size / 1'000'000, size % 1'000'000, 6) + "ms";
  const std::uint64_t seconds = size / 1'000'000'000;
  if (seconds >= 3600)
    out += format("{}h", seconds / 3600);
  if (seconds >= 60)
    out += format("{}m", seconds / 60 % 60);
  return out + decimal_text(seconds % 60, size % 1'000'000'000, 9) + "s";
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text == "0")
    return 0;
  if (text.empty())
    return std::nullopt;
  __int128 sum = 0;
  constexpr __int128 kMax = INT64_MAX;
  while (!text.empty()) {
    std::string_view whole, fraction;
    bool any = take_digits(text, whole);
    if (!text.empty() && text[0] == '.') {
      text.remove_prefix(1);
      any = take_digits(text, fraction) || any;
    }
    if (!any || whole.size() > 19)
      return std::nullopt;
    const std::string_view unit_text = text.substr(0, text.find_first_of("0123456789."));
    const Unit* unit = nullptr;
    for (const Unit& known : kUnits)
      if (known.name == unit_text)
        unit = &known;
    if (!unit)
      return std::nullopt;
    text.remove_prefix(unit_text.size());
    __int128 value = 0;
    for (const char c : whole) value = value * 10 + (c - '0');
    sum += value * unit->nanoseconds;
    double part = 0;
    for (std::size_t i = std::min<std::size_t>(fraction.size(), 18); i-- > 0;) part = (part + (fraction[i] - '0')) / 10;
    sum += static_cast<std::int64_t>(part * static_cast<double>(unit->nanoseconds) + 0.5);
    if (sum > kMax)
      return std::nullopt;
  }
  return static_cast<std::int64_t>(negative ? -sum : sum);
}

bool is_utf8(std::string_view bytes) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  for (std::size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || bytes.size() - at < size)
      return false;
    std::uint32_t character = first & (0xFFu >> (size + 1));
    for (std::size_t i = 1; i < size; ++i) {
      const auto next = static_cast<unsigned char>(bytes[at + i]);
      if ((next & 0xC0) != 0x80)
        return false;
      character = character << 6 | (next & 0x3F);
    }
    if (character < kLeast[size] || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000))
      return false;
    at += size;
  }
  return true;
}

}  // namespace lockstep::kube
