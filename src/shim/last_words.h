// What the output of a step says of its end when somebody else ended it. In Slurm's words, which scripts and people
// look for in their logs: "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-03-01T12:00:00 DUE TO TIME LIMIT ***".
#pragma once

#include <sys/types.h>

#include <string>

#include "ports/shims.h"

namespace lockstep {

// With its line end; "" when there is nothing to tell. at_s: seconds since the epoch, told as local time.
// What a task that watches for its end reads: when it is killed at the latest, in seconds since the epoch, and why.
std::string stop_notice(StopWhy why, std::int64_t killed_at_s);

// What the kernel killed for want of memory: how many processes, and the last one's name as far as it is known.
std::string out_of_memory_words(const WorkId& key, std::uint64_t kills, const std::string& program);

std::string last_words(StopWhy why, const WorkId& key, const std::string& host, std::int64_t at_s);

// Appends it to a file that the user named. The file is opened by a process of its own, as that user, so that a file
// that does not open holds up neither us nor, as it has none of our descriptors and ends with us, who waits for our
// end. Its pid, which is our child; -1: it could not be made.
pid_t append_as_user(const ProcessSpec& who, const std::string& path, const std::string& text);

}  // namespace lockstep
