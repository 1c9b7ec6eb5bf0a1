// Small encodings that values of objects use: base64 of bytes, Go's text of durations, UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::kube {

std::string base64_text(std::string_view bytes);                    // with padding
std::optional<std::string> bytes_of_base64(std::string_view text);  // nullopt: malformed. Line breaks in it are skipped

// "1h30m0s", "1.5s", "250ms", "0s", as Go prints a time.Duration. Nanoseconds.
std::string duration_text(std::int64_t nanoseconds);
std::optional<std::int64_t> parse_duration(std::string_view text);  // nullopt: malformed, or beyond 64 bits

bool is_utf8(std::string_view bytes);  // without surrogates and overlong forms

}  // namespace lockstep::kube
