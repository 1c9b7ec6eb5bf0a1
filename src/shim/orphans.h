// Processes whose shim was killed. The kernel gives them to the nearest subreaper above, whatever sessions, names and
// environments they made for themselves: to this agent, if it started the shim, else to the node's first process or
// the service manager. So no mark on them is needed: whoever is a child of ours and no shim is an orphan.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>

namespace lockstep {

// From now on orphans come to this process.
void adopt_orphans();

// Kills what a killed shim left, and what that made; returns how many processes were found, 0 when nothing is left.
// shims: the live ones. since_us (boot clock, 0 = unknown): of what came to a process above us, nothing older is meant.
std::size_t kill_orphans(const std::set<pid_t>& shims, std::int64_t since_us);

// Takes away children of this process that have ended and that nobody here waits for, and returns how many there were.
// What ran in a PID namespace of its own, as programs beside containers do, holds up the end of that namespace, and so
// of its container, until it is taken.
std::size_t reap_orphans(const std::set<pid_t>& shims);

// A child of this process that is neither a shim nor an orphan, from before it is made until this goes: whoever made it
// waits for it, on any thread, and nobody else kills or reaps it or what is below it. One for all threads, because
// children are the process's.
class OwnChild {
 public:
  // make: makes it and returns its number; 0 or less: it could not.
  explicit OwnChild(const std::function<pid_t()>& make);
  ~OwnChild();
  OwnChild(OwnChild&&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

}  // namespace lockstep
