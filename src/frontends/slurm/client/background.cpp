// Threads for blocking calls; see the header.
#include "frontends/slurm/client/background.h"

#include <signal.h>

#include <thread>

namespace lockstep {

// Signals are the main thread's: a thread made here takes none, else one could vanish in it unseen.
void run_detached(std::function<void()> work) {
  ::sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread(std::move(work)).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace lockstep
