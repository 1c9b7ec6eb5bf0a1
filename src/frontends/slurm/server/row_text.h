// Rows for the Slurm commands: fields between tabs, one row a line, written straight into one string.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// Tab, newline and backslash inside a field become \t, \n and two backslashes.
inline void append_field_text(std::string& out, std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c != '\t' && c != '\n' && c != '\\';
  if (plain) {
    out += text;
    return;
  }
  for (const char c : text) switch (c) {
      case '\t': out += "\\t"; break;
      case '\n': out += "\\n"; break;
      case '\\': out += "\\\\"; break;
      default: out += c;
    }
}

template <class Int>
void append_field_number(std::string& out, Int value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

}  // namespace lockstep
