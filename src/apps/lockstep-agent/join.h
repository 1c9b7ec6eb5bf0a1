// `lockstep-agent join`: turns a one-time token into this node's certificate; `check`: whether that can be used.
#pragma once

#include "base/result.h"
#include "io/https_client.h"
#include "wire/api.h"

namespace lockstep {

// argv[0] = "join". 0 joined, 1 refused or failed, 2 wrong usage.
int join_main(int argc, char** argv);
// argv[0] = "check". 0 it can be used, and what it says is on stdout; 1 it cannot, and why is on stderr; 2 wrong usage.
int check_main(int argc, char** argv);

// Why a controller that answered so cannot be joined by this machine, if it cannot: clocks and versions.
Result<void> check_fits(const Ping& ping, std::int64_t wall_us, const std::string& where);

}  // namespace lockstep
