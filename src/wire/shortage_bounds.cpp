#include "wire/shortage_bounds.h"

#include "base/text.h"

namespace lockstep {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr Unit kUnits[] = {{"Ki", 1LL << 10}, {"Mi", 1LL << 20}, {"Gi", 1LL << 30},    {"Ti", 1LL << 40},
                           {"k", 1'000},      {"M", 1'000'000},  {"G", 1'000'000'000}, {"T", 1'000'000'000'000}};
constexpr std::uint64_t kAmountMost = std::uint64_t{1} << 62;

}  // namespace

Result<ShortageBound> parse_shortage_bound(std::string_view text) {
  const auto refuse = [text] {
    return invalid(format("\"{}\" is neither a share (\"10%\") nor an amount (\"100Mi\")", text));
  };
  if (text.empty())
    return ShortageBound{};
  if (text.ends_with('%')) {
    const auto percent = parse_uint(text.substr(0, text.size() - 1));
    if (!percent || *percent > 100)
      return refuse();
    return ShortageBound{0, static_cast<std::uint32_t>(*percent)};
  }
  std::uint64_t unit = 1;
  for (const Unit& one : kUnits)
    if (unit == 1 && text.ends_with(one.name)) {
      unit = static_cast<std::uint64_t>(one.bytes);
      text.remove_suffix(one.name.size());
    }
  const auto amount = parse_uint(text);
  if (!amount || *amount > kAmountMost / unit)
    return refuse();
  return ShortageBound{static_cast<std::int64_t>(*amount * unit), 0};
}

}  // namespace lockstep
