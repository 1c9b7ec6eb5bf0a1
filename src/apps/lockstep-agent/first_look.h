// What an agent finds of the one before it: a journal, and the shims themselves. Where the journal is lost, damaged or
// older than what runs, the shims tell; nobody is told that nothing runs while something does.
#pragma once

#include <string>
#include <vector>

#include "agent/logic.h"
#include "io/journal_file.h"
#include "wire/local_files.h"

namespace lockstep {

struct FirstLook {
  JournalFile journal;
  std::vector<std::string> lines;  // what is known by it
  std::vector<FoundWork> found;    // what the shims tell
  std::string trouble;             // a sentence for an administrator; "" = nothing is wrong
};

// Shims that nobody can speak to any more have ended, with their tasks, when this returns.
Result<FirstLook> look_first(const AgentFile& settings, const std::string& boot_id);

}  // namespace lockstep
