// One line of a log: when, how grave, what. "2026-03-01T12:00:00.123 info Started job=12 user=alice nodes=n[1-2]".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class LogLevel : unsigned char { kInfo, kWarning, kError };

// The line with its end, for a moment in microseconds since the epoch, told as local time. Control characters, which a
// user may have put into a name, become "?".
std::string log_text(std::int64_t at_us, LogLevel level, std::string_view text);

// Writes it to stderr in one piece.
void log_line(LogLevel level, std::string_view text);
void log_lines(LogLevel level, const std::vector<std::string>& lines);

// "2026-03-01T12:00:00.123"; "" where a line bears no time: it belongs to the line before.
std::string_view stamp_of(std::string_view line);
std::string_view level_of(std::string_view line);       // "info", "warning", "error"; "" where a line bears none
std::string_view without_stamp(std::string_view line);  // nor level

}  // namespace lockstep
