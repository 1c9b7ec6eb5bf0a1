// `lockstep-agent join`: turns a one-time token into this node's certificate; `check`: whether that can be used.
#pragma once

namespace lockstep {

// argv[0] = "join". 0 joined, 1 refused or failed, 2 wrong usage.
int join_main(int argc, char** argv);
// argv[0] = "check". 0 it can be used, 1 it cannot, and why is on stderr, 2 wrong usage.
int check_main(int argc, char** argv);

}  // namespace lockstep
