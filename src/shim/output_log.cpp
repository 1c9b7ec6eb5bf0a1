#include "shim/output_log.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace lockstep {
namespace {

constexpr unsigned kFreeShare = 20;  // one in so many blocks of the disk stays free for everybody else

// Asked for each piece: a system call beside a write of up to 64 KiB.
bool disk_has_room(int fd) {
  struct statvfs disk {};
  return ::fstatvfs(fd, &disk) != 0 || disk.f_bavail > disk.f_blocks / kFreeShare;
}

}  // namespace

OutputLog::~OutputLog() {
  empty_file();
  if (fd_ >= 0)
    ::close(fd_);
}

void OutputLog::check_invariants() const {
  CHECK(base_ <= end_ && head_ <= memory_.size());
  CHECK(file_size_ == 0 || fd_ >= 0);
  const std::uint64_t in_memory = memory_.size() - head_;
  const std::uint64_t in_file = file_size_ > 0 ? file_from_ + file_size_ - std::max(file_from_, base_) : 0;
  CHECK(in_memory + in_file + tail_.size() == end_ - base_,
        format("{} bytes in memory, {} in the file, {} behind it: not {} to {}", in_memory, in_file, tail_.size(),
               base_, end_));
}

bool OutputLog::has_room() const {
  if (!tail_.empty())
    return false;
  return (file_size_ == 0 && memory_.size() - head_ < limits_.memory_bytes) || file_may_grow();
}

bool OutputLog::file_may_grow() const {
  return file_size_ < limits_.file_bytes && (!limits_.room || limits_.room->bytes_used < limits_.room->bytes_max);
}

void OutputLog::empty_file() {
  CHECK(!limits_.room || limits_.room->bytes_used >= file_size_);
  if (limits_.room)
    limits_.room->bytes_used -= file_size_;
  file_size_ = 0;
}

void OutputLog::append(std::string_view bytes) {
  end_ += bytes.size();
  if (file_size_ == 0 && tail_.empty() && memory_.size() - head_ + bytes.size() <= limits_.memory_bytes) {
    memory_.append(bytes);
    return;
  }
  flush_tail();
  if (!tail_.empty() || !spill(bytes))
    tail_.append(bytes);  // the disk said no: hold these few, has_room() stops the rest
  check_invariants();
}

bool OutputLog::spill(std::string_view bytes) {
  if (fd_ < 0) {
    fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ::unlink(file_.c_str());
  }
  if (fd_ < 0 || !disk_has_room(fd_))
    return false;
  if (file_size_ == 0)
    file_from_ = base_ + (memory_.size() - head_);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(file_size_ + done));
    if (n <= 0)
      return false;  // file_size_ does not count it: overwritten by the next attempt
    done += static_cast<std::size_t>(n);
  }
  file_size_ += done;
  if (limits_.room)
    limits_.room->bytes_used += done;
  return true;
}

void OutputLog::flush_tail() {
  if (!tail_.empty() && spill(tail_))
    tail_.clear();
}

std::string_view OutputLog::read(std::uint64_t offset, std::size_t max) {
  offset = std::max(offset, base_);
  if (offset >= end_)
    return {};
  const std::uint64_t memory_end = base_ + (memory_.size() - head_);
  if (offset < memory_end)
    return std::string_view(memory_).substr(head_ + (offset - base_), max);
  const std::uint64_t file_end = file_size_ > 0 ? file_from_ + file_size_ : memory_end;
  if (offset < file_end) {
    scratch_.resize(std::min<std::uint64_t>(max, file_end - offset));
    const ssize_t n = ::pread(fd_, scratch_.data(), scratch_.size(), static_cast<off_t>(offset - file_from_));
    scratch_.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return scratch_;
  }
  return std::string_view(tail_).substr(offset - (end_ - tail_.size()), max);
}

void OutputLog::trim(std::uint64_t offset) {
  offset = std::min(offset, end_);
  if (offset <= base_)
    return;
  const std::uint64_t memory_end = base_ + (memory_.size() - head_);
  if (offset >= memory_end) {
    memory_.clear();
    head_ = 0;
  } else {
    head_ += offset - base_;
    if (head_ > limits_.memory_bytes / 2) {
      memory_.erase(0, head_);
      head_ = 0;
    }
  }
  base_ = offset;
  if (file_size_ > 0 && offset >= file_from_ + file_size_) {
    empty_file();
    if (::ftruncate(fd_, 0) != 0) {
      // The file keeps old bytes that nothing refers to; the next spill overwrites them.
    }
  }
  if (file_size_ == 0 && !tail_.empty()) {
    const std::uint64_t tail_from = end_ - tail_.size();
    tail_.erase(0, offset > tail_from ? offset - tail_from : 0);
    memory_ += tail_;
    tail_.clear();
  }
  flush_tail();
  check_invariants();
}

}  // namespace lockstep
