// Numbers and texts of the messages between a shim, its lockstep-pmi and the step's client: big-endian, texts with four
// bytes of length before them. Reading beyond the end gives zeros and is remembered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

class PmiWriter {
 public:
  PmiWriter& number(std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) out_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  PmiWriter& text(std::string_view text) {
    number(text.size(), 4);
    out_.append(text);
    return *this;
  }
  PmiWriter& rest(std::string_view bytes) {
    out_.append(bytes);
    return *this;
  }
  std::string take() { return std::exchange(out_, {}); }

 private:
  std::string out_;
};

class PmiReader {
 public:
  explicit PmiReader(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (const char c : take(bytes)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }
  std::string text() { return std::string(take(number(4))); }
  std::string rest() { return std::string(take(bytes_.size())); }
  bool good() const { return good_; }
  bool at_end() const { return good_ && bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      good_ = false;
      size = 0;
    }
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return part;
  }

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace lockstep
