// Text of users on its way to a terminal: control characters become visible, so that a name cannot forge a row, move
// the cursor or change the direction of writing. Everything that prints names passes through here.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The text itself where it holds nothing dangerous, else `buffer` with \n, \t, \x1b, \u202e in its place. Bytes that
// are no UTF-8 are written as \xNN too.
std::string_view shown(std::string_view text, std::string& buffer);
std::string shown(std::string_view text);
// The same of a text of several lines that we laid out: line ends stay.
std::string shown_lines(std::string_view text);

}  // namespace lockstep
