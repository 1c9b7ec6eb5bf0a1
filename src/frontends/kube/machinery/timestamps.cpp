#include "frontends/kube/machinery/timestamps.h"

#include <cstdint>

#include "base/text.h"

namespace lockstep::kube {
namespace {

struct Date {
  int year = 0, month = 0, day = 0;
};

// Days since 1970-01-01 and back, in the proleptic Gregorian calendar, counted in eras of 400 years that begin in
// March.
std::int64_t days_of(Date date) {
  const std::int64_t year = date.year - (date.month <= 2 ? 1 : 0);
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t of_era = year - era * 400;
  const std::int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

Date date_of(std::int64_t days) {
  days += 719468;
  const std::int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const std::int64_t of_era = days - era * 146097;
  const std::int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const std::int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
  const std::int64_t month = (5 * of_year + 2) / 153;
  return {static_cast<int>(year + era * 400 + (month >= 10 ? 1 : 0)),
          static_cast<int>(month < 10 ? month + 3 : month - 9), static_cast<int>(of_year - (153 * month + 2) / 5 + 1)};
}

int month_days(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  return month == 2 && leap ? 29 : kDays[month - 1];
}

// Takes exactly `count` digits off the front; -1: they are not there.
int take_number(std::string_view& text, std::size_t count) {
  if (text.size() < count)
    return -1;
  int number = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9')
      return -1;
    number = number * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return number;
}

bool take_char(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted)
    return false;
  text.remove_prefix(1);
  return true;
}

std::string moment_text(WallTime time, bool micros) {
  std::int64_t seconds = time.us / 1'000'000, rest = time.us % 1'000'000;
  if (rest < 0) {
    rest += 1'000'000;
    --seconds;
  }
  std::int64_t days = seconds / 86400, of_day = seconds % 86400;
  if (of_day < 0) {
    of_day += 86400;
    --days;
  }
  const Date date = date_of(days);
  std::string text = format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", date.year, date.month, date.day, of_day / 3600,
                            of_day / 60 % 60, of_day % 60);
  if (micros)
    text += format(".{:06}", rest);
  return text + "Z";
}

}  // namespace

std::optional<WallTime> parse_timestamp(std::string_view text) {
  const int year = take_number(text, 4);
  const bool dashed = take_char(text, '-');
  const int month = take_number(text, 2);
  const bool dashed_again = take_char(text, '-');
  const int day = take_number(text, 2);
  if (!dashed || !dashed_again || year < 1 || month < 1 || month > 12 || day < 1 || day > month_days(year, month))
    return std::nullopt;
  if (!take_char(text, 'T') && !take_char(text, 't'))
    return std::nullopt;
  const int hour = take_number(text, 2);
  const bool colon = take_char(text, ':');
  const int minute = take_number(text, 2);
  const bool colon_again = take_char(text, ':');
  const int second = take_number(text, 2);
  if (!colon || !colon_again || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
    return std::nullopt;
  std::int64_t micros = 0;
  if (take_char(text, '.')) {
    std::size_t digits = 0;
    for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; text.remove_prefix(1), ++digits)
      if (digits < 6)
        micros = micros * 10 + (text.front() - '0');
    if (digits == 0)
      return std::nullopt;
    for (; digits < 6; ++digits) micros *= 10;
  }
  std::int64_t offset = 0;
  if (!take_char(text, 'Z') && !take_char(text, 'z')) {
    const bool ahead = take_char(text, '+');
    if (!ahead && !take_char(text, '-'))
      return std::nullopt;
    const int hours = take_number(text, 2);
    const bool split = take_char(text, ':');
    const int minutes = take_number(text, 2);
    if (!split || hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
      return std::nullopt;
    offset = (hours * 60 + minutes) * 60 * (ahead ? 1 : -1);
  }
  if (!text.empty())
    return std::nullopt;
  const std::int64_t seconds = days_of({year, month, day}) * 86400 + hour * 3600 + minute * 60 + second - offset;
  return WallTime{seconds * 1'000'000 + micros};
}

std::string timestamp_text(WallTime time) { return moment_text(time, false); }
std::string micro_timestamp_text(WallTime time) { return moment_text(time, true); }

std::string age_text(Duration age) {
  const std::int64_t seconds = age.us / 1'000'000;
  if (seconds < -1)
    return "<invalid>";
  if (seconds < 0)
    return "0s";
  if (seconds < 120)
    return format("{}s", seconds);
  const auto two = [](std::int64_t first, char unit, std::int64_t second, char smaller) {
    return second == 0 ? format("{}{}", first, unit) : format("{}{}{}{}", first, unit, second, smaller);
  };
  const std::int64_t minutes = seconds / 60;
  if (minutes < 10)
    return two(minutes, 'm', seconds % 60, 's');
  if (minutes < 180)
    return format("{}m", minutes);
  const std::int64_t hours = minutes / 60;
  if (hours < 8)
    return two(hours, 'h', minutes % 60, 'm');
  if (hours < 48)
    return format("{}h", hours);
  if (hours < 24 * 8)
    return two(hours / 24, 'd', hours % 24, 'h');
  const std::int64_t days = hours / 24;
  if (days < 365 * 2)
    return format("{}d", days);
  if (days < 365 * 8)
    return two(days / 365, 'y', days % 365, 'd');
  return format("{}y", days / 365);
}

}  // namespace lockstep::kube
