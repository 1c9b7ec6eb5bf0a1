// `lockstep-agent join`: turns a one-time token into this node's certificate.
#pragma once

namespace lockstep {

// argv[0] = "join". 0 joined, 1 refused or failed, 2 wrong usage.
int join_main(int argc, char** argv);

}  // namespace lockstep
