// scontrol's layout: Key=Value pairs on indented lines, or all on one line with -o.
#pragma once

#include <string>
#include <string_view>

#include "base/text.h"

namespace lockstep {

class ShowText {
 public:
  explicit ShowText(bool one_line) : one_line_(one_line) {}

  template <class T>
  ShowText& pair(std::string_view key, const T& value) {
    if (!at_start_)
      out_ += ' ';
    at_start_ = false;
    out_ += key;
    out_ += '=';
    out_ += format("{}", value);
    return *this;
  }
  // An empty text shows as "(null)".
  ShowText& text_or_null(std::string_view key, std::string_view value) {
    return pair(key, value.empty() ? std::string_view("(null)") : value);
  }
  void next_line() {
    if (one_line_) {
      if (!at_start_)
        out_ += ' ';
    } else {
      out_ += "\n   ";
    }
    at_start_ = true;
  }
  void end_record() {
    while (!out_.empty() && out_.back() == ' ') out_.pop_back();
    out_ += one_line_ ? "\n" : "\n\n";
    at_start_ = true;
  }
  std::string take() { return std::move(out_); }

 private:
  bool one_line_;
  bool at_start_ = true;
  std::string out_;
};

// "2025-11-21T12:55:00" in the controller's time zone; 0 gives `none`.
std::string show_time(std::int64_t wall_seconds, std::string_view none = "Unknown");
// "01:00:00", "1-00:00:00", "UNLIMITED".
std::string show_span(std::int64_t seconds);

}  // namespace lockstep
