// OutputLog: what one task wrote to one descriptor and no client has acknowledged yet. A mebibyte stays in memory, the
// rest goes to a file without a name, so that nothing is left behind however we end; when that is full (or the disk
// is), has_room() says to stop reading, and the task waits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

struct OutputLimits {
  std::size_t memory_bytes = 1 << 20;
  std::size_t file_bytes = 1 << 30;
};

class OutputLog {
 public:
  OutputLog(std::string file, OutputLimits limits) : file_(std::move(file)), limits_(limits) {}
  OutputLog(OutputLog&&) = delete;
  ~OutputLog();

  std::uint64_t base() const { return base_; }  // offset of the oldest byte still kept
  std::uint64_t end() const { return end_; }    // offset behind the newest
  bool has_room() const;
  void append(std::string_view bytes);
  // Up to max bytes from offset on (from base() if it is older). The view lives until the next call.
  std::string_view read(std::uint64_t offset, std::size_t max);
  void trim(std::uint64_t offset);  // everything before it is safe elsewhere

 private:
  bool spill(std::string_view bytes);
  void flush_tail();

  // Invariant: kept bytes are memory_[head_..], then the file, then tail_; each part may be empty, together they are
  // [base_, end_).
  std::string file_;
  OutputLimits limits_;
  std::string memory_, tail_, scratch_;
  std::size_t head_ = 0;
  std::uint64_t base_ = 0, end_ = 0;
  int fd_ = -1;
  std::uint64_t file_from_ = 0;  // offset of the file's first byte
  std::uint64_t file_size_ = 0;
};

}  // namespace lockstep
