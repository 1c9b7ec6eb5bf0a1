// Makes shims by copying itself. A copy costs a fraction of a program's start, most of which is the C library's look at
// the processor (each cpuid traps on a virtual machine), exec, and the pages of the program.
//
//   agent ── a folder's name, record, control ─▶ nursery ── clone(CLONE_PARENT) ─▶ a shim, the agent's own child
#pragma once

#include <sys/types.h>

#include <string>

namespace lockstep {

inline constexpr int kNurserySocketFd = 3;                   // it starts with its end of the socket here
inline constexpr const char* kNurseryOption = "--nursery";   // of lockstep-shim
inline constexpr const char* kNurseryName = "shim-nursery";  // /proc/PID/comm; a shim is called as its program is
inline constexpr std::string_view kNurseryPid = "pid ";      // + the new shim's; on the control socket, once for each

// Makes shims until the agent closes the socket; its working directory is the folder of their folders. In a new shim:
// returns the shim's exit code when it has ended. `arguments` is main's argv behind the program's name: a shim writes
// its folder's name over it, so that `ps` shows what it is for.
int run_nursery(int socket, char** arguments);

// What the agent appends to the nursery's arguments, as room for such a name.
inline constexpr const char* kRoomForName = "                                        ";

// For the agent: has a shim made. Does not wait: the pid comes over the other end of `control`, or "failed WHY". False:
// nothing was sent and errno says why.
bool ask_nursery(int socket, const std::string& folder, int record, int control);

}  // namespace lockstep
