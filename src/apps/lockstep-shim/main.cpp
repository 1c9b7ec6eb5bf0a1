// lockstep-shim: started by lockstep-agent in a step's folder; see src/shim/shim.h. Not for people to run.
#include <cstdio>
#include <cstring>

#include "shim/checkpoint_watch.h"
#include "shim/container_reach.h"
#include "shim/job_place.h"
#include "shim/nursery.h"
#include "shim/protocol.h"
#include "shim/sandbox_keeper.h"
#include "shim/shim.h"
#include "shim/stage_program.h"
#include "shim/task_hooks.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("lockstep-shim " LOCKSTEP_VERSION);
    return 0;
  }
  if (argc >= 2 && std::strcmp(argv[1], lockstep::kNurseryOption) == 0)
    return lockstep::run_nursery(lockstep::kNurserySocketFd, argv + 1);
  if (argc >= 2 && std::strcmp(argv[1], lockstep::kAroundTaskOption) == 0)
    return lockstep::run_around_task(argc - 2, argv + 2);
  if (argc >= 2 && std::strcmp(argv[1], lockstep::kStageOption) == 0)
    return lockstep::run_staging(argc - 2, argv + 2);
  if (argc >= 2 && std::strcmp(argv[1], lockstep::kWatchOption) == 0)
    return lockstep::run_checkpoint_watch(argc - 2, argv + 2);
  if (argc == 2 && std::strcmp(argv[1], lockstep::kSandboxOption) == 0)
    return lockstep::run_sandbox_keeper();
  if (argc == 3 && std::strcmp(argv[1], lockstep::kReachOption) == 0)
    return lockstep::run_reach(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], lockstep::kRemovePlaceOption) == 0)
    return lockstep::run_remove_place(argv[2], argv[3]);
  const bool is_named = argc == 2 && lockstep::parse_work_id(argv[1]).has_value();  // for `ps` only
  if (argc > 1 && !is_named) {
    std::fputs("lockstep-shim is started by lockstep-agent, one for each step\n", stderr);
    return 2;
  }
  lockstep::settle_shim();
  return lockstep::run_shim({});
}
