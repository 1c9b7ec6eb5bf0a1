// CgroupHost: which control groups this host has, version 2 or version 1's controllers, and where this process is in
// them. Sources: cgroups(7), and the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

enum class CgroupVersion : unsigned char { kV1 = 1, kV2 = 2 };

struct CgroupHost {
  CgroupVersion version = CgroupVersion::kV2;
  // By controller, the directory of this process's own group: "memory", "cpuset", "pids", "cpuacct", "devices",
  // "freezer"; under version 2 all lead to the same one. One that the host does not offer us is not there.
  std::map<std::string, std::string, std::less<>> own;
  std::string mount;  // of version 2: where the hierarchy begins

  bool has(std::string_view controller) const { return own.find(controller) != own.end(); }
  const std::string& dir(std::string_view controller) const { return own.find(controller)->second; }
};

// mountinfo, cgroup: /proc/self/mountinfo and /proc/self/cgroup. controllers_in: the text of a version 2 group's
// cgroup.controllers. Version 2 where it can limit memory and processes, else version 1. kNotFound: neither can.
Result<CgroupHost> read_cgroup_host(std::string_view mountinfo, std::string_view cgroup,
                                    const std::function<std::string(const std::string& dir)>& controllers_in);

Result<CgroupHost> this_cgroup_host();

}  // namespace lockstep
