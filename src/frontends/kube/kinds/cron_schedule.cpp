#include "frontends/kube/kinds/cron_schedule.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "frontends/kube/machinery/encodings.h"

namespace lockstep::kube {

namespace {

constexpr std::int64_t kMinute = 60, kHour = 3600, kDay = 86'400, kYears = 5 * 366 * kDay;
constexpr std::string_view kMonthNames[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                            "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::string_view kWeekdayNames[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},  {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"}};

struct Civil {
  std::int64_t year = 0, month = 0, day = 0;  // month and day from 1 on
};

// Days since 1970 as a date of the Gregorian calendar.
Civil civil_of(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t in_era = days - era * 146'097;
  const std::int64_t year = (in_era - in_era / 1460 + in_era / 36'524 - in_era / 146'096) / 365;
  const std::int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
  const std::int64_t from_march = (5 * in_year + 2) / 153;
  const std::int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
  return {year + era * 400 + (month <= 2), month, in_year - (153 * from_march + 2) / 5 + 1};
}

struct CronField {
  std::string_view what;
  std::int64_t low, high;
  std::span<const std::string_view> names;  // of the values from `low` on
};

std::optional<std::int64_t> value_of(std::string_view word, const CronField& field) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (std::size_t i = 0; i < field.names.size(); ++i)
    if (field.names[i] == lower)
      return field.low + static_cast<std::int64_t>(i);
  const auto number = parse_uint(word);
  return number && *number <= 1000 ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

struct FieldBits {
  std::uint64_t bits = 0;
  bool any = false;
};

Result<FieldBits> read_part(std::string_view text, const CronField& field) {
  const auto fault = [&] { return invalid(format("cannot read \"{}\" as a {} of a schedule", text, field.what)); };
  const std::size_t slash = text.find('/');
  const std::string_view range = text.substr(0, slash);
  std::int64_t low = field.low, high = field.high, step = 1;
  const bool star = range == "*" || range == "?";
  if (!star) {
    const std::size_t dash = range.find('-');
    const auto from = value_of(range.substr(0, dash), field);
    const auto to = dash == std::string_view::npos ? from : value_of(range.substr(dash + 1), field);
    if (!from || !to)
      return fault();
    low = *from;
    high = dash == std::string_view::npos && slash != std::string_view::npos ? field.high : *to;
  }
  if (slash != std::string_view::npos) {
    const auto said = parse_uint(text.substr(slash + 1));
    if (!said || *said == 0 || *said > 1000)
      return fault();
    step = static_cast<std::int64_t>(*said);
  }
  if (low < field.low || high > field.high || low > high)
    return fault();
  FieldBits out{0, star && step == 1};
  for (std::int64_t i = low; i <= high; i += step) out.bits |= std::uint64_t{1} << i;
  return out;
}

Result<FieldBits> read_field(std::string_view text, const CronField& field) {
  FieldBits out;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    const FieldBits part = TRY(read_part(text.substr(from, comma - from), field));
    out.bits |= part.bits;
    out.any |= part.any;
    from = comma + 1;
  }
  return out;
}

std::vector<std::string_view> words_in(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t at = text.find_first_not_of(" \t"); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t", at), text.size());
    out.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(" \t", end);
  }
  return out;
}

bool has_bit(std::uint64_t bits, std::int64_t at) { return (bits >> at & 1) != 0; }

}  // namespace

Result<CronSchedule> CronSchedule::parse(std::string_view text, std::shared_ptr<const TimeZone> zone) {
  CronSchedule out;
  out.zone_ = std::move(zone);
  if (text.starts_with("@every ")) {
    const auto every = parse_duration(text.substr(7));
    if (!every || *every < 1'000'000'000)
      return invalid(format("\"{}\" is no time of a second or more", text.substr(7)));
    out.every_ = seconds(*every / 1'000'000'000);
    return out;
  }
  for (const auto& [word, meaning] : kShort)
    if (text == word)
      text = meaning;
  const auto words = words_in(text);
  if (words.size() != 5)
    return invalid(format("expected exactly 5 fields, found {}: [{}]", words.size(), text));
  const FieldBits minutes = TRY(read_field(words[0], {"minute", 0, 59, {}}));
  const FieldBits hours = TRY(read_field(words[1], {"hour", 0, 23, {}}));
  const FieldBits days = TRY(read_field(words[2], {"day of the month", 1, 31, {}}));
  const FieldBits months = TRY(read_field(words[3], {"month", 1, 12, kMonthNames}));
  const FieldBits weekdays = TRY(read_field(words[4], {"day of the week", 0, 6, kWeekdayNames}));
  out.minutes_ = minutes.bits;
  out.hours_ = hours.bits;
  out.days_ = days.bits;
  out.months_ = months.bits;
  out.weekdays_ = weekdays.bits;
  out.any_day_ = days.any;
  out.any_weekday_ = weekdays.any;
  return out;
}

bool CronSchedule::day_matches(std::int64_t day, std::int64_t month, std::int64_t weekday) const {
  if (!has_bit(months_, month))
    return false;
  const bool by_day = has_bit(days_, day), by_weekday = has_bit(weekdays_, weekday);
  return any_day_ || any_weekday_ ? by_day && by_weekday : by_day || by_weekday;
}

// Hour by hour, then minute by minute: so no change of clocks is stepped over.
std::optional<WallTime> CronSchedule::next(WallTime after) const {
  if (every_.us != 0)
    return WallTime{after.seconds() * 1'000'000 + every_.us};
  std::int64_t at = (after.seconds() / kMinute + 1) * kMinute;
  for (const std::int64_t end = at + kYears; at < end;) {
    const std::int64_t local = at + zone_->offset(at);
    const std::int64_t days = local / kDay - (local % kDay < 0);
    const std::int64_t in_day = local - days * kDay;
    const Civil date = civil_of(days);
    const std::int64_t minute = in_day % kHour / kMinute;
    if (!has_bit(hours_, in_day / kHour) || !day_matches(date.day, date.month, ((days % 7) + 11) % 7)) {
      at += (60 - minute) * kMinute;
      continue;
    }
    if (has_bit(minutes_, minute))
      return WallTime{at * 1'000'000};
    at += kMinute;
  }
  return std::nullopt;
}

}  // namespace lockstep::kube
