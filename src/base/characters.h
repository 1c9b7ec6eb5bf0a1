// Control characters in text: what moves a cursor, rings a bell or starts an escape sequence when a terminal shows it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The code of the first control character: a byte below 32, 127, or one of 128 to 159, be it as UTF-8 or as a byte that
// is no part of a UTF-8 character. Those in `but` do not count.
std::optional<unsigned> control_character_in(std::string_view text, std::string_view but = {});

// The text with '?' for each control character, cut to so many bytes.
std::string without_control_characters(std::string_view text, std::size_t bytes_max);

}  // namespace lockstep
