// Finds lines that begin with a certain text in what comes in pieces. Keeps no bytes of it.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

class LineSign {
 public:
  // text: how such a line begins; "" = no line is one.
  explicit LineSign(std::string text = {}) : text_(std::move(text)) {}

  // True: in this piece a line has shown that it begins so. Carriage returns begin a line, too: progress bars use them.
  bool see(std::string_view piece);

 private:
  static constexpr std::size_t kNotThisLine = std::string::npos;
  std::string text_;
  std::size_t matched_ = 0;  // so many bytes of the line are those of text_; kNotThisLine: it begins otherwise
};

}  // namespace lockstep
