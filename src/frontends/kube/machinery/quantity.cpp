#include "frontends/kube/machinery/quantity.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/text.h"

namespace lockstep::kube {
namespace {

using Wide = __int128;
constexpr Wide kNano = 1'000'000'000;
constexpr Wide kMost = kNano * kNano * kNano * 10 * kNano;  // 10^28 wholes, in billionths
constexpr std::int64_t kInt64Max = INT64_MAX;

constexpr const char* kWrongForm =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

struct Suffix {
  std::string_view text;
  int exponent;
};
constexpr Suffix kDecimal[] = {{"n", -9}, {"u", -6}, {"m", -3}, {"", 0},   {"k", 3},
                               {"M", 6},  {"G", 9},  {"T", 12}, {"P", 15}, {"E", 18}};
constexpr Suffix kBinary[] = {{"Ki", 10}, {"Mi", 20}, {"Gi", 30}, {"Ti", 40}, {"Pi", 50}, {"Ei", 60}};

struct Scale {
  int base = 10;
  int exponent = 0;
  Quantity::Format format = Quantity::Format::kDecimal;
};

std::optional<Scale> scale_of(std::string_view suffix) {
  for (const Suffix& each : kDecimal)
    if (suffix == each.text)
      return Scale{10, each.exponent, Quantity::Format::kDecimal};
  for (const Suffix& each : kBinary)
    if (suffix == each.text)
      return Scale{2, each.exponent, Quantity::Format::kBinary};
  if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E'))
    return std::nullopt;
  suffix.remove_prefix(suffix[1] == '+' ? 2 : 1);
  const auto exponent = parse_int(suffix);
  if (!exponent)
    return std::nullopt;
  return Scale{10, static_cast<int>(std::clamp<std::int64_t>(*exponent, -10'000, 10'000)), Quantity::Format::kExponent};
}

// The digits of a number times ten or two to a power, in billionths, rounded away from zero; nullopt: above kMost.
std::optional<Wide> nanos_of(std::string_view digits, int fraction_digits, Scale scale) {
  Wide value = 0;
  int dropped = 0;  // digits too many to matter, beyond the 38 that fit
  bool lost = false;
  for (const char digit : digits) {
    if (value > kMost) {
      ++dropped;
      lost = lost || digit != '0';
      continue;
    }
    value = value * 10 + (digit - '0');
  }
  if (value == 0)
    return 0;
  int ten = 9 - fraction_digits + dropped + (scale.base == 10 ? scale.exponent : 0);
  for (int two = scale.base == 2 ? scale.exponent : 0; two > 0; --two) {
    // Room is made by dropping digits that the division below would drop as well.
    if (value > kMost * 5) {
      if (ten >= 0)
        return std::nullopt;
      lost = lost || value % 10 != 0;
      value /= 10;
      ++ten;
    }
    value *= 2;
  }
  for (; ten > 0; --ten) {
    if (value > kMost)
      return std::nullopt;
    value *= 10;
  }
  for (; ten < 0; ++ten) {
    lost = lost || value % 10 != 0;
    value /= 10;
    if (value == 0)
      break;
  }
  if (lost)
    ++value;
  return value > kMost ? std::nullopt : std::optional(value);
}

std::string wide_text(Wide value) {
  std::string digits;
  const bool negative = value < 0;
  for (Wide rest = negative ? -value : value; rest > 0; rest /= 10)
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (digits.empty())
    digits = "0";
  if (negative)
    digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::int64_t narrow(Wide nanos, Wide unit) {
  Wide value = nanos / unit;
  if (nanos % unit != 0)
    value += nanos > 0 ? 1 : -1;
  return static_cast<std::int64_t>(std::clamp<Wide>(value, INT64_MIN, INT64_MAX));
}

}  // namespace

Quantity::Quantity(std::int64_t whole, Format format) : nanos_(static_cast<Wide>(whole) * kNano), format_(format) {}

std::int64_t Quantity::whole() const { return narrow(nanos_, kNano); }
std::int64_t Quantity::thousandths() const { return narrow(nanos_, 1'000'000); }

bool Quantity::is_whole() const {
  return nanos_ % kNano == 0 && nanos_ / kNano <= INT64_MAX && nanos_ / kNano >= INT64_MIN;
}

double Quantity::approximate() const { return static_cast<double>(static_cast<long double>(nanos_) / 1e9L); }

Quantity Quantity::operator-() const {
  Quantity other = *this;
  other.nanos_ = -nanos_;
  return other;
}

Quantity& Quantity::operator+=(const Quantity& other) {
  if (nanos_ == 0)
    format_ = other.format_;
  nanos_ = std::clamp<Wide>(nanos_ + other.nanos_, -kMost, kMost);
  return *this;
}

Quantity& Quantity::operator-=(const Quantity& other) {
  if (nanos_ == 0)
    format_ = other.format_;
  nanos_ = std::clamp<Wide>(nanos_ - other.nanos_, -kMost, kMost);
  return *this;
}

std::string Quantity::text() const {
  if (nanos_ == 0)
    return "0";
  const Wide size = nanos_ < 0 ? -nanos_ : nanos_;
  if (format_ == Format::kBinary && size >= 1024 * kNano && nanos_ % kNano == 0) {
    Wide value = nanos_ / kNano;
    std::size_t power = 0;
    while (value % 1024 == 0 && power < std::size(kBinary)) {
      value /= 1024;
      ++power;
    }
    return wide_text(value) + std::string(power == 0 ? "" : kBinary[power - 1].text);
  }
  Wide value = nanos_;
  int exponent = -9;
  while (value % 1000 == 0 && (format_ == Format::kExponent || exponent < 18)) {
    value /= 1000;
    exponent += 3;
  }
  if (format_ == Format::kExponent)
    return wide_text(value) + (exponent == 0 ? "" : lockstep::format("e{}", exponent));
  return wide_text(value) + std::string(kDecimal[(exponent + 9) / 3].text);
}

Result<Quantity> parse_quantity(std::string_view text) {
  if (text.empty())
    return invalid(kWrongForm);
  const bool negative = text.front() == '-';
  std::string_view rest = text;
  if (rest.front() == '-' || rest.front() == '+')
    rest.remove_prefix(1);
  const auto take_digits = [&] {
    const std::size_t end = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const std::string_view digits = rest.substr(0, end);
    rest.remove_prefix(end);
    return digits;
  };
  std::string digits(take_digits());
  int fraction_digits = 0;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    const std::string_view fraction = take_digits();
    digits += fraction;
    fraction_digits = static_cast<int>(std::min<std::size_t>(fraction.size(), 100'000));
  }
  if (text.size() > 1000)
    return invalid("unable to parse numeric part of quantity: it is longer than 1000 characters");
  const std::string_view suffix = rest;
  const std::size_t letters = std::min(rest.find_first_not_of("eEinumkKMGTP"), rest.size());
  rest.remove_prefix(letters);
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '+'))
    rest.remove_prefix(1);
  take_digits();
  if (!rest.empty())
    return invalid(kWrongForm);
  const auto scale = scale_of(suffix);
  if (!scale)
    return invalid("unable to parse quantity's suffix");
  const auto nanos = nanos_of(digits, fraction_digits, *scale);
  if (!nanos)
    return invalid(format("unable to parse numeric part of quantity: {} is larger than 1e28", text.substr(0, 60)));
  Quantity quantity;
  quantity.format_ = scale->format;
  quantity.nanos_ = *nanos;
  if (scale->format == Quantity::Format::kBinary) {
    quantity.nanos_ = std::min(quantity.nanos_, kInt64Max * kNano);
    if (quantity.nanos_ > 0 && quantity.nanos_ < kNano)
      quantity.format_ = Quantity::Format::kDecimal;
  }
  if (negative)
    quantity.nanos_ = -quantity.nanos_;
  return quantity;
}

}  // namespace lockstep::kube
