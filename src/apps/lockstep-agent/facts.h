// What this machine is, as the controller is told with every hello.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/records.h"
#include "wire/local_files.h"

namespace lockstep {

// Settings win over what the machine says. Devices are added by the caller.
Result<Node> read_facts(const AgentFile& settings);

struct CpuLayout {
  std::uint32_t sockets = 1, cores = 1, threads_per_core = 1;
};
// Of /proc/cpuinfo's text; online: logical CPUs to assume where it does not say.
CpuLayout parse_cpuinfo(std::string_view text, std::uint32_t online);

}  // namespace lockstep
