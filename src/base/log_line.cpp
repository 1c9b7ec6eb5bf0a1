#include "base/log_line.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kStampBytes = 23;
constexpr std::string_view kStampShape = "dddd-dd-ddTdd:dd:dd.ddd";
constexpr std::string_view kLevels[] = {"info", "warning", "error"};

// What stands before the text: the same for all lines of one moment.
std::string head_of(std::int64_t at_us, LogLevel level) {
  const time_t when = at_us / 1'000'000;
  tm local{};
  char stamp[32] = "";
  if (::localtime_r(&when, &local))
    ::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
  return format("{}.{:03} {} ", stamp, at_us / 1000 % 1000, kLevels[static_cast<std::size_t>(level)]);
}

void append_line(std::string& out, std::string_view head, std::string_view text) {
  out += head;
  const std::size_t begin = out.size();
  out += text;
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }, '?');
  out.push_back('\n');
}

std::int64_t now_us() {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  return now.tv_sec * std::int64_t{1'000'000} + now.tv_usec;
}

}  // namespace

std::string log_text(std::int64_t at_us, LogLevel level, std::string_view text) {
  std::string line;
  append_line(line, head_of(at_us, level), text);
  return line;
}

void log_line(LogLevel level, std::string_view text) {
  const std::string line = log_text(now_us(), level, text);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

void log_lines(LogLevel level, const std::vector<std::string>& lines) {
  const std::string head = head_of(now_us(), level);
  std::string text;
  for (const auto& line : lines) append_line(text, head, line);
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

std::string_view stamp_of(std::string_view line) {
  const std::string_view stamp = line.substr(0, std::min(line.size(), kStampBytes));
  const bool is_one = stamp.size() == kStampBytes &&
                      std::equal(stamp.begin(), stamp.end(), kStampShape.begin(),
                                 [](char c, char shape) { return shape == 'd' ? c >= '0' && c <= '9' : c == shape; });
  return is_one ? stamp : std::string_view();
}

namespace {

// What follows the stamp, if there is one.
std::string_view behind_stamp(std::string_view line) {
  const std::string_view stamp = stamp_of(line);
  return stamp.empty() ? line : line.substr(std::min(line.size(), stamp.size() + 1));
}

}  // namespace

std::string_view level_of(std::string_view line) {
  if (stamp_of(line).empty())
    return {};
  const std::string_view rest = behind_stamp(line);
  for (const std::string_view level : kLevels)
    if (rest.starts_with(level) && rest.substr(level.size()).starts_with(' '))
      return level;
  return {};
}

std::string_view without_stamp(std::string_view line) {
  const std::string_view rest = behind_stamp(line), level = level_of(line);
  return level.empty() ? rest : rest.substr(level.size() + 1);
}

}  // namespace lockstep
