// The agent's journal on disk: lines of one boot. It has to survive the agent, not the machine: a new boot starts with
// an empty one, so a line counts once write(2) has taken it.
//
// Each line has a number and a check. The tip, a small file beside what runs (in memory, where there is such a place),
// names the boot and the last line that counts: so a journal that was removed, cut off or put back from an older copy
// is told from that of a new boot. A torn last line is an ordinary end of an agent: nobody had acted on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep {

class JournalFile {
 public:
  enum class State : unsigned char {
    kNewBoot,  // nothing tells of an agent in this boot
    kWhole,
    kDamaged,  // damage() says how. lines() are those that can be trusted: some are missing
  };

  // tip: path of the second file. Lines of another boot are dropped. A damaged journal is left alone until replace().
  static Result<JournalFile> open(const std::string& path, const std::string& tip, const std::string& boot_id);
  JournalFile(JournalFile&& other) noexcept;
  JournalFile& operator=(JournalFile&&) = delete;
  ~JournalFile();

  State state() const { return state_; }
  const std::string& damage() const { return damage_; }
  const std::vector<std::string>& lines() const { return lines_; }  // as found at open
  const std::vector<std::string>& older() const { return older_; }  // kNewBoot: what an older boot has left, unchecked
  // What is under the journal's name is what was written. Not so after damage, or when somebody removed, replaced or
  // cut it meanwhile: then append() would write into the void, and replace() mends it.
  bool stands() const;
  Result<void> append(const std::vector<std::string>& lines);  // all or none
  bool is_long() const { return size_ > size_after_replace_ * 2 + (1 << 20); }
  Result<void> replace(const std::vector<std::string>& lines);
  // Disk is set aside for the lines of what runs already. False: there is none left, so nothing more should start.
  bool has_room();

 private:
  JournalFile() = default;
  void read(const std::string& bytes);
  void read_plain_lines(const std::string& bytes);
  void read_older(const std::string& bytes);
  std::string numbered(const std::vector<std::string>& lines, std::uint64_t last) const;
  void write_tip();
  Result<void> go_on(std::size_t size);

  std::string path_, tip_path_, boot_id_;
  int fd_ = -1, tip_fd_ = -1;
  std::uint64_t last_ = 0;  // number of the last line
  std::size_t size_ = 0, size_after_replace_ = 0, set_aside_ = 0;
  State state_ = State::kNewBoot;
  std::string damage_;
  std::vector<std::string> lines_, older_;
};

}  // namespace lockstep
