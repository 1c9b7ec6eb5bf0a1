// What the tasks of a group, or of a step, run.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct Mount {
  std::string source, target;
  bool read_only = false;
  std::vector<std::string> options;  // further ones, as mount(8) names them: "nosuid", "rprivate"
  friend bool operator==(const Mount&, const Mount&) = default;
};

struct Container {
  std::string image;  // "" = run on the node itself
  std::vector<Mount> mounts;
  std::string work_dir;
  std::string name;  // under which later steps find it on the node again; "" = it goes with its step
  enum class Reuse : unsigned char { kAuto, kMake, kEnter, kKeepOut } reuse = Reuse::kAuto;  // of one with that name
  std::string save;                   // where the changed file system is written once its tasks have ended
  std::vector<std::string> keep_env;  // names whose values here win over the image's
  bool mount_home = false;
  bool writable = false;
  bool remap_root = false;  // the user is root inside
  bool entrypoint = false;  // the image's own program comes before argv
  std::string bundle;       // an OCI bundle on the node instead of an image
  friend bool operator==(const Container&, const Container&) = default;
};

struct Program {
  std::vector<std::string> argv;                         // kTasks: what each task runs; kScript: the script's arguments
  std::vector<std::pair<std::string, std::string>> env;  // added to the job's environment
  Container container;
  friend bool operator==(const Program&, const Program&) = default;
};

}  // namespace lockstep
