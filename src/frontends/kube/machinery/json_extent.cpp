#include "frontends/kube/machinery/json_extent.h"

#include <algorithm>

namespace lockstep::kube {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Behind the string's last quote.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return at + 1;
}

// A list or an object that is not empty has one value more than commas.
bool has_something(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at < text.size() && text[at] != ']' && text[at] != '}';
}

}  // namespace

JsonExtent extent_of(std::string_view text) {
  JsonExtent out;
  out.values = has_something(text, 0) ? 1 : 0;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    switch (text[at]) {
      case '"': at = end_of_string(text, at); continue;
      case ',': ++out.values; break;
      case '\n': ++out.lines; break;
      case '[':
      case '{':
        out.depth = std::max(out.depth, ++depth);
        if (has_something(text, at + 1))
          ++out.values;
        break;
      case ']':
      case '}': depth -= depth > 0 ? 1 : 0; break;
      default: break;
    }
    ++at;
  }
  return out;
}

}  // namespace lockstep::kube
