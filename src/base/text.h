// Text: formatting ({fmt} stands in for std::format), splitting, trimming and strict number parsing.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

using fmt::format;

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" -> {"a","","b"}; "" -> {}
std::vector<std::string> split_words(std::string_view text);            // on runs of blanks
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string lower(std::string_view text);
std::optional<std::int64_t> parse_int(std::string_view text);    // the whole text, decimal, no overflow
std::optional<std::uint64_t> parse_uint(std::string_view text);  // the same, no sign
// Takes as long for a near miss as for a far one: for what only its owner should know.
bool equal_in_constant_time(std::string_view a, std::string_view b);

Error os_error(std::string_view what);  // kIo, "WHAT: errno in words"

}  // namespace lockstep
