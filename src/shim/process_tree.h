// Finding and signalling the processes of a step. While the shim lives it is the subreaper of all of them, so walking
// down from it misses none, whatever sessions they made. After its death their sessions are what is left to go by.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "shim/protocol.h"

namespace lockstep {

std::vector<pid_t> descendants_of(pid_t root);  // without root; parents before children
// How many were reached. Signal 0 only counts.
std::size_t signal_descendants(pid_t root, int signal);

// SIGCONT for those that have been stopped. To whoever runs it would be one more signal, and the kernel hands out those
// that wait by their numbers, whichever was sent first: a SIGTERM behind it could overtake.
void wake_stopped(pid_t root);

bool any_lives_below(pid_t root);

// Sends SIGSTOP to those who have not stopped; true: nobody can, and nobody has come since the last look (seen, which
// is replaced by who is there now).
bool stop_descendants(pid_t root, std::vector<pid_t>& seen);

// Ends those processes of this user that trace what lives below, or has died there: it cannot be waited for before its
// tracer lets go, and a PID namespace not end before that (ptrace(2), zap_pid_ns_processes of the kernel).
void end_tracers(pid_t root, uid_t uid);

// Every thread below stands, or waits in the kernel.
bool none_can_run(pid_t root);

// Kills what is left of the sessions these tasks led; returns how many processes were found. A pid that was reused
// since does not match: its session can only be another one when ours is empty.
std::size_t kill_sessions(const std::vector<ShimPid>& leaders);

struct ProcessFacts {
  pid_t parent = 0, session = 0;
  std::int64_t started_us = 0;  // boot clock, to a hundredth of a second
  bool zombie = false;
};
std::map<pid_t, ProcessFacts> all_processes();  // those that this process can see
// Gone, or waiting to be reaped, which who traces it may put off for as long as he likes. Its children have other
// parents.
bool is_dead(pid_t pid);
std::string read_proc_text(const std::string& path);  // "" if it is gone

std::int64_t boot_clock_us();

}  // namespace lockstep
