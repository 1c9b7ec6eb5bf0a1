// What a process with the user's rights, which we started, tells its shim: lines over a pipe. Such a process may be
// anybody's by the time it speaks, so only the latest line is kept, and no more of it than fits here.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

class ToldLines {
 public:
  static constexpr std::size_t kLineMost = 2048;

  static Result<ToldLines> make();
  ToldLines(ToldLines&& other) noexcept;
  ToldLines& operator=(ToldLines&&) = delete;
  ~ToldLines();

  int fd() const { return fd_; }                // to wait at; -1 once everybody has closed the other end
  int their_end() const { return their_end_; }  // for the process; -1 once handed on
  void handed_on();                             // the process has its end, or never will

  // Reads what has come. True: a line ended in it, and line() is the latest one.
  bool read();
  const std::string& line() const { return line_; }

 private:
  ToldLines() = default;
  void take(std::string_view bytes, bool& ended);
  int fd_ = -1, their_end_ = -1;
  std::string line_, unended_;
  bool too_long_ = false;  // the line that is being read
};

}  // namespace lockstep
