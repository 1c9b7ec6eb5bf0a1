// scontrol's layout: Key=Value pairs on indented lines, or all on one line with -o. Control characters in values are
// made visible: a name cannot add a line. A client may ask for times as marks, which it replaces by the time in its own
// zone: no value can hold one.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "views/read_context.h"
#include "views/shown_text.h"

namespace lockstep::slurm {

struct ShowLook {
  bool one_line = false;
  bool marks_times = false;  // a time is its Unix seconds between two kTimeMark
};
ShowLook show_look(const PageRequest& request);  // ?oneline=1&times=marked
inline constexpr char kTimeMark = '\x1f';

class ShowText {
 public:
  explicit ShowText(ShowLook look) : one_line_(look.one_line), marks_times_(look.marks_times) {}

  template <class T>
  ShowText& pair(std::string_view key, const T& value) {
    if (!at_start_)
      out_ += ' ';
    at_start_ = false;
    out_ += key;
    out_ += '=';
    if constexpr (std::is_convertible_v<const T&, std::string_view>)
      out_ += shown(std::string_view(value));
    else
      out_ += format("{}", value);
    return *this;
  }
  // "2025-11-21T12:55:00"; 0 gives `none`.
  ShowText& time(std::string_view key, std::int64_t wall_seconds, std::string_view none = "Unknown") {
    pair(key, "");
    return add_time(wall_seconds, none);
  }
  // Behind what was written last.
  ShowText& add_time(std::int64_t wall_seconds, std::string_view none = "Unknown", std::string_view suffix = "");
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
  bool one_line_, marks_times_;
  bool at_start_ = true;
  std::string out_;
};

// A page of many records, so many at a time: record(ShowText&, const T&) writes one.
template <class T, class F>
PageReply show_in_pieces(std::vector<Ref<T>> records, ShowLook look, std::size_t at_once, F record) {
  PageReply reply;
  reply.more = [records = std::move(records), at = std::size_t{0}, look, at_once,
                record = std::move(record)](std::string& body) mutable {
    ShowText out(look);
    for (std::size_t n = 0; n < at_once && at < records.size(); ++n, ++at) record(out, *records[at]);
    body += out.take();
    return at < records.size();
  };
  return reply;
}
template <class T, class Map>
std::vector<Ref<T>> refs_of(const Map& map) {
  std::vector<Ref<T>> out;
  out.reserve(map.size());
  for (const auto& [key, record] : map) out.push_back(record);
  return out;
}

// "2025-11-21T12:55:00" in the controller's time zone; 0 gives `none`.
std::string show_time(std::int64_t wall_seconds, std::string_view none = "Unknown");
// "01:00:00", "1-00:00:00", "UNLIMITED".
std::string show_span(std::int64_t seconds);

}  // namespace lockstep::slurm
