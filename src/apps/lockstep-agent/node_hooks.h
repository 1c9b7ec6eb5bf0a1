// HookRunner: the programs of the site that this node runs around jobs, as its settings name them. A shim owns them;
// here is what it is told to run, and what is made of their words.
#pragma once

#include "agent/hooks.h"
#include "ports/shims.h"
#include "shim/stage_program.h"
#include "wire/local_files.h"

namespace lockstep {

HookSettings hook_settings(const NodeHooks& hooks);

class HookRunner {
 public:
  // settings: outlive it. Makes the folder for what the programs say.
  explicit HookRunner(const AgentFile& settings);

  // Adds program and streams to an order of the logic. An error: what is named is not there, or not to be trusted.
  Result<void> complete(ShimStart& start) const;
  // The site's programs around each task, outside of those that its user has named.
  void add_task_programs(ProcessSpec& process) const;
  // How far what is copied for jobs has come.
  std::vector<StagingSample> staging(const std::vector<WorkId>& works) const;
  // Of one that has ended: its last words become ShimEvent::why when it failed, and all of them go into the log.
  void hear_out(ShimEvent& event) const;

 private:
  std::string output_of(const WorkId& hook) const;
  std::optional<StageWord> staging_word(const WorkId& staging) const;
  const AgentFile& settings_;
};

}  // namespace lockstep
