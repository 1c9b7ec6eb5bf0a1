// The mounts of a job's place, made by a process that is to be its namespace's first.
#pragma once

#include "base/result.h"
#include "shim/job_place.h"

namespace lockstep {

struct PlaceSources {
  std::string tmp, var_tmp;   // directories that become /tmp and /var/tmp; "" = the node's stay
  std::string passwd, group;  // files that become /etc/passwd and /etc/group; "" = the node's stay
};

// Files that keep the namespaces, of mounts and of System V's objects.
struct PlaceFiles {
  std::string mounts, ipc;
};

// In the caller's namespace, which is a new one of its own.
Result<void> mount_job_place(const JobPlace& place, const PlaceSources& sources);

// Namespaces so made, held by the files. What makes them is a child, which has ended when this returns. An error: the
// files may hold what is not complete.
Result<void> make_place_namespace(const JobPlace& place, const PlaceSources& sources, const PlaceFiles& files);

}  // namespace lockstep
