// Copies files and directories as they are: modes, times, symbolic links and holes. Runs with the rights of whoever
// owns the job, in a process of its own (stage_program.h).
//
// Links are copied and not followed, except where a path that its user has named leads through one. A directory on
// which something else is mounted is an error that names it: neither is half a tree copied without a word, nor a whole
// other file system. Devices, pipes and sockets are passed over. Hard links become files of their own; access lists and
// extended attributes are left behind.
//
// What is there already, of the same size and time, is not copied again, and a file that was begun goes on where it
// ended: it has a name of its own (".lockstep-part-…") until it is whole.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct CopyCount {
  std::int64_t bytes = 0;  // by the sizes of files, holes included
  std::int64_t files = 0;  // everything but directories
};

// The name that a file has while it is copied: which version of which file it is the beginning of.
std::string part_name(std::string_view name, const struct stat& facts);

// One thing to copy. A path that is not absolute lies below `below_*`, which it cannot leave, not by links either.
struct CopyTask {
  std::string from, to;
  std::string from_below, to_below;
};

// What happens where something cannot be copied.
enum class CopyFault : unsigned char {
  kEnds,      // nothing more is copied
  kPassedBy,  // it is left behind, and noted
};

class TreeCopy {
 public:
  using Tell = std::function<void(const CopyCount& done)>;  // called often
  TreeCopy(CopyFault fault, Tell tell) : fault_(fault), tell_(std::move(tell)) {}

  // How much there is to copy.
  Result<CopyCount> measure(const CopyTask& task);
  // A directory's contents come into `to`; a file becomes `to`, or lies in it where that is a directory or ends with a
  // slash. Directories on the way are made. Errors: kUnavailable may be another time, and is passed by in the last try
  // only; kExhausted is a full disk or quota; kDenied, kNotFound and kInvalid stay.
  Result<void> copy(const CopyTask& task, bool last_try);

  const CopyCount& done() const { return done_; }
  std::int64_t passed_over() const { return passed_over_; }  // devices, pipes and sockets
  // What was left behind: how many, and why the first one was.
  std::int64_t left_behind() const { return left_behind_; }
  const std::string& first_left() const { return first_left_; }

 private:
  struct Walk;
  bool passes_by(const Error& error, bool last_try);

  CopyFault fault_;
  Tell tell_;
  CopyCount done_;
  std::int64_t left_behind_ = 0;
  std::string first_left_;
  std::int64_t passed_over_ = 0;
  std::vector<std::string> made_;  // directories named by tasks that were not there before
};

}  // namespace lockstep
