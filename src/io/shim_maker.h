// Starts lockstep-shim processes for the agent: through a nursery, which copies itself, or by starting the program.
#pragma once

#include <sys/types.h>

#include <string>

#include "io/descriptor.h"

namespace lockstep {

class ShimMaker {
 public:
  // shims_fd: the folder of their folders, which outlives us. null_fd: /dev/null. shim_path: absolute, as a shim starts
  // in its own folder.
  ShimMaker(int shims_fd, Fd null_fd, std::string shim_path, const std::string& spill_dir);
  ~ShimMaker();
  ShimMaker(const ShimMaker&) = delete;
  ShimMaker& operator=(const ShimMaker&) = delete;

  // A shim in folder `name` with its record file and its end of the control socket; neither stays open here for it.
  // The pid; 0 when the nursery was asked, which tells it over the control socket (shim/nursery.h).
  Result<pid_t> make(const std::string& name, int record, int control);
  pid_t nursery() const { return nursery_; }  // 0: none
  void end_nursery();                         // a new one is started when there is something to make

 private:
  // folder: "" is the folder of all. low and next become the descriptors 3 and 4; next may be -1.
  Result<pid_t> spawn(const std::string& folder, int low, int next, const char* option);
  void start_nursery();

  int shims_fd_;
  Fd null_fd_;
  std::string shim_path_, spill_variable_;
  bool log_is_file_ = false;
  Fd socket_;  // to the nursery
  pid_t nursery_ = 0;
  std::int64_t nursery_again_us_ = 0;  // on the boot clock: not before
};

}  // namespace lockstep
