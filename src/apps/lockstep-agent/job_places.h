// The agent's part in what jobs have to themselves on this node (shim/job_place.h): it notes what each attempt is to
// have before anything of it starts, and removes it when nothing of the attempt is here any more, in processes of their
// own. What an agent before this one left, or a machine that lost its power, goes the same way.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/held_attempt.h"
#include "model/agent_messages.h"
#include "wire/local_files.h"

namespace lockstep {

// SCRATCH of the node: a directory of its own below the one that the settings name, or of its state.
std::string scratch_folder(const AgentFile& settings, const std::string& node);

class JobPlaces {
 public:
  JobPlaces(const AgentFile& settings, const std::string& node);
  ~JobPlaces();

  // An error: nothing of the attempt may start, since it would find the places of all.
  Result<void> note(const LaunchAttempt& launch);
  // Begins to remove what is of none of these.
  void look(const std::set<AttemptId>& here);
  bool is_due(const std::set<AttemptId>& here) const;  // something that was noted is of none of these

 private:
  struct Removal;
  Result<void> prepare() const;
  void reap();
  void await_removal(const std::string& name);  // two seconds at most
  std::set<std::string> names() const;

  std::string shim_, places_, scratch_;
  std::vector<std::string> shown_;  // of ours, to every job
  bool private_tmp_ = false, apart_ = false, ready_ = false;
  std::set<std::string> noted_;
  std::uint64_t looks_ = 0;
  std::map<std::string, std::uint64_t> tried_;  // in which look each removal was begun last: others go first
  std::map<std::string, std::unique_ptr<Removal>> removing_;
};

}  // namespace lockstep
