// One file that srun writes its tasks' output to: its own standard output or error, or what -o and -e name. Opening
// never waits: a named pipe that nobody reads yet keeps a first part of the output here, and is tried again.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lockstep::slurm {

class OutputFile {
 public:
  OutputFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}  // standard output or error: not closed
  // Makes the file when it is not there, and leaves what is in it until begin().
  static Result<std::shared_ptr<OutputFile>> open(const std::string& path);
  // As far as can be said of a name that still lacks a number: there is a folder to make it in.
  static Result<void> check_folder(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&&) = delete;

  Result<void> begin(bool append);  // the step starts: what an earlier one wrote goes, or stays in front

  // A named pipe without a reader so far; asks again whether there is one.
  bool waits_for_reader();
  bool keep(std::string_view text);  // false: no room is left until somebody reads
  std::string take_kept() { return std::exchange(kept_, {}); }
  bool has_kept() const { return !kept_.empty(); }

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  void fail(int why) { failed_ = why; }
  int failed() const { return failed_; }  // errno of the write that failed; nothing is written after it
  bool take_untold() { return failed_ != 0 && !std::exchange(told_, true); }  // once, after it failed

 private:
  int fd_ = -1;
  std::string name_;
  std::string path_;  // to be opened still
  std::string kept_;
  bool ours_ = false;
  int failed_ = 0;
  bool told_ = false;
};

}  // namespace lockstep::slurm
