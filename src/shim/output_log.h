// OutputLog: what one task wrote to one descriptor and no client has acknowledged yet. A little stays in memory, the
// rest goes to a file without a name, so that nothing is left behind however we end. When that is full, or the step's
// share is, or the disk nearly, has_room() says to stop reading: the task waits until somebody reads, and nothing is
// lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// What all outputs of a step keep in files together.
struct SpillRoom {
  std::uint64_t bytes_max = 512 << 20;
  std::uint64_t bytes_used = 0;
};

struct OutputLimits {
  std::size_t memory_bytes = 1 << 20;
  std::size_t file_bytes = 64 << 20;
  SpillRoom* room = nullptr;  // shared with the other outputs of the step; null = its own limit only
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
  bool file_may_grow() const;
  void empty_file();
  void flush_tail();
  void check_invariants() const;

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
