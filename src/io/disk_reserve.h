// Disk space set aside for bad days: a file that is given back when the disk is full, so that completions and cancels
// still commit, and is made again when there is room.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

class DiskReserve {
 public:
  // free_bytes tells how much the file system has left; tests replace it.
  DiskReserve(std::string path, std::int64_t bytes, std::function<std::int64_t()> free_bytes = {});
  bool held() const { return held_; }
  void release();
  // Makes the file again when more than twice its size is free: remaking it must not fill the disk once more.
  bool restore();

 private:
  std::string path_;
  std::int64_t bytes_;
  std::function<std::int64_t()> free_bytes_;
  bool held_ = false;
};

// Before anything is opened: gives the file back if the disk it lies on is full, so that what must be made at a start
// can be made; the log makes it again when there is room. Returns its path if it did.
std::optional<std::string> give_back_reserve(const std::string& path);

}  // namespace lockstep
