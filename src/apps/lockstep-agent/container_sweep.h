// Removes what containers of jobs have left on this node: what steps put out of the way when they ended, and of jobs
// that have gone containers that had a name, and those of steps whose shim was killed. Images stay, for the next job of
// their user. The files are the user's, so lockstep-container removes them with the user's rights.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "model/ids.h"

namespace lockstep {

class ContainerSweep {
 public:
  // folder: where each user has one of his own, called as the uid. program: lockstep-container.
  ContainerSweep(std::string folder, std::string program) : folder_(std::move(folder)), program_(std::move(program)) {}

  // Looks once, and begins to remove; what is still being removed is left alone.
  void look(const std::function<bool(JobId)>& is_here);

 private:
  void look_at_user(const std::string& user, const std::function<bool(JobId)>& is_here);
  void remove(const std::string& user, const std::string& what, const struct stat& owner);
  void reap();

  std::string folder_, program_;
  std::map<std::pair<std::string, std::string>, pid_t> removing_;  // by user, and job or "trash"
};

}  // namespace lockstep
