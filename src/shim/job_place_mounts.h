// The mounts of a job's place, made by a process that is to be its namespace's first.
#pragma once

#include "base/result.h"
#include "shim/job_place.h"

namespace lockstep {

struct PlaceSources {
  std::string tmp, var_tmp;   // directories that become /tmp and /var/tmp; "" = the node's stay
  std::string passwd, group;  // files that become /etc/passwd and /etc/group; "" = the node's stay
};

// In the caller's namespace, which is a new one of its own.
Result<void> mount_job_place(const JobPlace& place, const PlaceSources& sources);

// A namespace so made, held by a file. What makes it is a child, which has ended when this returns. An error: the file
// may hold one that is not complete.
Result<void> make_place_namespace(const JobPlace& place, const PlaceSources& sources, const std::string& file);

}  // namespace lockstep
