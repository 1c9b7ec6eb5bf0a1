// The agent's journal on disk: lines of one boot. It has to survive the agent, not the machine: a new boot starts with
// an empty one, so a line counts once write(2) has taken it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

class JournalFile {
 public:
  // Lines of another boot are dropped; same_boot() tells.
  static Result<JournalFile> open(const std::string& path, const std::string& boot_id);
  JournalFile(JournalFile&& other) noexcept;
  JournalFile& operator=(JournalFile&&) = delete;
  ~JournalFile();

  bool same_boot() const { return same_boot_; }
  const std::vector<std::string>& lines() const { return lines_; }  // as found at open
  Result<void> append(const std::vector<std::string>& lines);       // all or none
  bool is_long() const { return size_ > size_after_replace_ * 2 + (1 << 20); }
  Result<void> replace(const std::vector<std::string>& lines);

 private:
  JournalFile() = default;

  std::string path_, boot_id_;
  int fd_ = -1;
  std::size_t size_ = 0, size_after_replace_ = 0;
  bool same_boot_ = false;
  std::vector<std::string> lines_;
};

}  // namespace lockstep
