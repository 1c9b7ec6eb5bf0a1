// Threads for blocking calls; see the header.
#include "frontends/slurm/client/background.h"

#include <thread>

namespace lockstep {

void run_detached(std::function<void()> work) { std::thread(std::move(work)).detach(); }

}  // namespace lockstep
