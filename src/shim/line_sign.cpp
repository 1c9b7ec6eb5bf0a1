#include "shim/line_sign.h"

#include <algorithm>

namespace lockstep {

bool LineSign::see(std::string_view piece) {
  bool found = false;
  while (!text_.empty() && !piece.empty()) {
    if (matched_ == kNotThisLine) {
      const auto end = piece.find_first_of("\r\n");
      if (end == piece.npos)
        return found;
      piece.remove_prefix(end + 1);
      matched_ = 0;
      continue;
    }
    const std::string_view wanted = std::string_view(text_).substr(matched_);
    const std::size_t size = std::min(wanted.size(), piece.size());
    if (piece.substr(0, size) != wanted.substr(0, size)) {
      // An empty line may be what came, whose end begins the next one.
      const bool ends_here = piece.front() == '\n' || piece.front() == '\r';
      matched_ = ends_here ? 0 : kNotThisLine;
      if (ends_here)
        piece.remove_prefix(1);
      continue;
    }
    piece.remove_prefix(size);
    matched_ += size;
    if (matched_ == text_.size()) {
      found = true;
      matched_ = kNotThisLine;
    }
  }
  return found;
}

}  // namespace lockstep
