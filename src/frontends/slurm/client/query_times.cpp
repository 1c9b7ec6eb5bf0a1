#include "frontends/slurm/client/query_times.h"

#include <time.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep::slurm {

namespace {

std::string strftime_text(const char* pattern, std::int64_t seconds) {
  const time_t when = seconds;
  tm parts{};
  localtime_r(&when, &parts);
  char text[256];
  return {text, strftime(text, sizeof text, pattern, &parts)};
}

// As Slurm: today "HH:MM:SS", this week "Mon HH:MM", else the date.
std::string relative_text(std::int64_t seconds, std::int64_t now) {
  const auto day = [](std::int64_t at) {
    const time_t when = at;
    tm parts{};
    localtime_r(&when, &parts);
    parts.tm_hour = 12, parts.tm_min = parts.tm_sec = 0;
    return static_cast<std::int64_t>(mktime(&parts)) / 86400;
  };
  const std::int64_t days = day(seconds) - day(now);
  if (days == 0)
    return strftime_text("%H:%M:%S", seconds);
  if (days == 1)
    return strftime_text("Tomorr %H:%M", seconds);
  if (days == -1)
    return strftime_text("Ystday %H:%M", seconds);
  if (days > 1 && days < 7)
    return strftime_text("%a %H:%M", seconds);
  return strftime_text("%-d %b %H:%M", seconds);
}

bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<int> number(std::string_view text, int low, int high) {
  const auto value = digits(text) ? parse_int(text) : std::nullopt;
  if (!value || *value < low || *value > high)
    return std::nullopt;
  return static_cast<int>(*value);
}

// "HH:MM[:SS][AM|PM]", noon, midnight, teatime, fika.
bool parse_clock(std::string_view text, tm& parts) {
  const std::string word = lower(text);
  const std::pair<const char*, int> names[] = {
      {"midnight", 0}, {"noon", 12}, {"elevenses", 11}, {"fika", 15}, {"teatime", 16}};
  for (const auto& [name, hour] : names)
    if (word == name) {
      parts.tm_hour = hour, parts.tm_min = parts.tm_sec = 0;
      return true;
    }
  std::string_view rest = word;
  int shift = -1;
  if (rest.ends_with("am") || rest.ends_with("pm")) {
    shift = rest.ends_with("pm") ? 12 : 0;
    rest.remove_suffix(2);
  }
  const auto fields = split(rest, ':');
  if (fields.size() < 2 || fields.size() > 3)
    return false;
  const auto hour = number(fields[0], 0, shift < 0 ? 23 : 12), minute = number(fields[1], 0, 59);
  const auto second = fields.size() == 3 ? number(fields[2], 0, 59) : std::optional<int>(0);
  if (!hour || !minute || !second)
    return false;
  parts.tm_hour = shift < 0 ? *hour : *hour % 12 + shift;
  parts.tm_min = *minute, parts.tm_sec = *second;
  return true;
}

bool set_date(tm& parts, std::optional<int> year, std::optional<int> month, std::optional<int> day) {
  if (!year || !month || !day)
    return false;
  parts.tm_year = (*year < 100 ? *year + 2000 : *year) - 1900;
  parts.tm_mon = *month - 1, parts.tm_mday = *day;
  return true;
}

// "2025-11-21", "11/21[/25]", "11.21[.25]", "1121[25]".
bool parse_day(std::string_view text, tm& parts) {
  const std::optional<int> this_year = parts.tm_year + 1900;
  if (const auto dash = split(text, '-'); dash.size() == 3)
    return set_date(parts, number(dash[0], 1970, 9999), number(dash[1], 1, 12), number(dash[2], 1, 31));
  for (const char separator : {'/', '.'}) {
    const auto fields = split(text, separator);
    if (fields.size() == 2 || fields.size() == 3)
      return set_date(parts, fields.size() == 3 ? number(fields[2], 0, 9999) : this_year, number(fields[0], 1, 12),
                      number(fields[1], 1, 31));
  }
  if ((text.size() == 4 || text.size() == 6) && digits(text))
    return set_date(parts, text.size() == 6 ? number(text.substr(4), 0, 99) : this_year,
                    number(text.substr(0, 2), 1, 12), number(text.substr(2, 2), 1, 31));
  return false;
}

std::optional<std::int64_t> parse_offset(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
  const auto count = parse_int(text.substr(0, i));
  if (!count || *count > 1'000'000'000)
    return std::nullopt;
  const std::string unit = lower(text.substr(i));
  const auto is = [&](std::string_view name) { return !unit.empty() && name.starts_with(unit); };
  if (unit.empty() || is("seconds"))
    return *count;
  if (is("minutes"))
    return *count * 60;
  if (is("hours"))
    return *count * 3600;
  if (is("days"))
    return *count * 86400;
  if (is("weeks"))
    return *count * 7 * 86400;
  return std::nullopt;
}

}  // namespace

std::string time_text(std::int64_t wall_seconds, std::string_view none, const std::string& pattern, std::int64_t now) {
  if (wall_seconds <= 0)
    return std::string(none);
  if (pattern.empty() || pattern == "standard")
    return strftime_text("%Y-%m-%dT%H:%M:%S", wall_seconds);
  if (pattern == "relative")
    return relative_text(wall_seconds, now);
  return strftime_text(pattern.c_str(), wall_seconds);
}

std::string with_times(std::string_view text, const std::string& pattern, std::int64_t now) {
  constexpr char kMark = '\x1f';
  std::string out;
  for (;;) {
    const auto begin = text.find(kMark);
    const auto end = begin == std::string_view::npos ? begin : text.find(kMark, begin + 1);
    const auto seconds =
        end == std::string_view::npos ? std::nullopt : parse_int(text.substr(begin + 1, end - begin - 1));
    if (!seconds)
      return out += text;
    out += text.substr(0, begin);
    out += time_text(*seconds, "Unknown", pattern, now);
    text.remove_prefix(end + 1);
  }
}

std::string span_text(std::int64_t seconds) {
  const std::int64_t days = seconds / 86400, hours = seconds / 3600 % 24, minutes = seconds / 60 % 60;
  if (days)
    return format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds % 60);
  if (hours)
    return format("{}:{:02}:{:02}", hours, minutes, seconds % 60);
  return format("{}:{:02}", minutes, seconds % 60);
}

std::string padded_span_text(std::int64_t seconds) {
  const std::string clock = format("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  return seconds >= 86400 ? format("{}-{}", seconds / 86400, clock) : clock;
}

std::string date_line(std::int64_t now) { return strftime_text("%a %b %d %H:%M:%S %Y\n", now); }

namespace {

// "now", "now+2days", "now-1hour".
std::optional<std::int64_t> beside_now(std::string_view behind, std::int64_t now) {
  if (behind.empty())
    return now;
  const bool has_sign = behind[0] == '+' || behind[0] == '-';
  const auto offset = has_sign && behind.size() > 1 ? parse_offset(behind.substr(1)) : std::nullopt;
  if (!offset)
    return std::nullopt;
  return behind[0] == '+' ? now + *offset : now - *offset;
}

// A day, then perhaps 'T', '-' or a blank and a clock. "1970-01-01-00:00:01" is what some tools write for "from the
// beginning"; Slurm takes it.
bool parse_day_and_clock(std::string_view word, tm& parts) {
  for (const char separator : {'t', ' ', '-'}) {
    const auto at = word.rfind(separator);
    tm tried = parts;
    if (at == std::string_view::npos || !parse_day(word.substr(0, at), tried))
      continue;
    const std::string_view clock = word.substr(at + 1);
    if (!parse_clock(clock.substr(0, clock.find('.')), tried))
      continue;
    parts = tried;
    return true;
  }
  return false;
}

bool parse_named_day(std::string_view word, tm& parts) {
  constexpr std::pair<std::string_view, int> kDays[] = {{"yesterday", -1}, {"today", 0}, {"tomorrow", 1}};
  for (const auto& [name, offset] : kDays) {
    if (word != name)
      continue;
    parts.tm_hour = parts.tm_min = 0;
    parts.tm_mday += offset;
    return true;
  }
  return false;
}

bool parse_bare_day(std::string_view word, tm& parts) {
  parts.tm_hour = parts.tm_min = 0;
  return parse_day(word, parts);
}

}  // namespace

std::optional<std::int64_t> parse_date(std::string_view text, std::int64_t now) {
  const std::string word = lower(text);
  if (word.starts_with("now"))
    return beside_now(std::string_view(word).substr(3), now);
  const time_t when = now;
  tm parts{};
  localtime_r(&when, &parts);
  parts.tm_isdst = -1;
  parts.tm_sec = 0;
  const bool is_date = parse_named_day(word, parts) || parse_clock(word, parts) || parse_day_and_clock(word, parts) ||
                       parse_bare_day(word, parts);
  return is_date ? std::optional(static_cast<std::int64_t>(mktime(&parts))) : std::nullopt;
}

}  // namespace lockstep::slurm
