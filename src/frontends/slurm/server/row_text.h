// Rows for the Slurm commands: fields between tabs, one row a line, written straight into one string.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "views/shown_text.h"

namespace lockstep::slurm {

// Control characters are made visible (views/shown_text.h); then backslashes are doubled, since a reader takes one
// away.
inline void append_field_text(std::string& out, std::string_view text) {
  std::string buffer;
  text = shown(text, buffer);
  if (text.find('\\') == std::string_view::npos) {
    out += text;
    return;
  }
  for (const char c : text) {
    if (c == '\\')
      out += c;
    out += c;
  }
}

template <class Int>
void append_field_number(std::string& out, Int value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace lockstep::slurm
