// `lockstep node join` and `leave`: this machine becomes a node of a cluster whose controller is elsewhere, and ceases
// to be one.
#pragma once

namespace lockstep {

// argv[0] = "join" or "leave". 0 done, 1 refused or failed, 2 wrong usage.
int node_join_main(int argc, char** argv);
int node_leave_main(int argc, char** argv);

}  // namespace lockstep
