// One controller per state directory: an flock on DIR/lock, which the kernel drops with the process, and our pid in it
// for the message.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace lockstep {

class DirectoryLock {
 public:
  static Result<std::unique_ptr<DirectoryLock>> take(const std::string& directory);
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep
