// What the tasks of a group, or of a step, run.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct Mount {
  std::string source, target;
  bool read_only = false;
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct Container {
  std::string image;  // "" = run on the node itself
  std::vector<Mount> mounts;
  std::string work_dir;
  friend bool operator==(const Container&, const Container&) = default;
};

struct Program {
  std::vector<std::string> argv;                         // kTasks: what each task runs; kScript: the script's arguments
  std::vector<std::pair<std::string, std::string>> env;  // added to the job's environment
  Container container;
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace lockstep
