// Threads for blocking calls; see the header.
#include "frontends/slurm/client/background.h"

#include <signal.h>
#include <unistd.h>

#include "base/thread.h"
#include "frontends/slurm/client/say.h"

namespace lockstep::slurm {

// Signals are the main thread's: a thread made here takes none, else one could vanish in it unseen.
Result<void> run_detached(std::function<void()> work) {
  ::sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  auto thread = start_thread(std::move(work));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread)
    return thread.error();
  thread->detach();
  return {};
}

bool has_descriptors(int count) {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  const bool has = fd >= 0 && (count <= 1 || has_descriptors(count - 1));
  if (fd >= 0)
    ::close(fd);
  return has;
}

void end_without_descriptors() {
  write_all(STDERR_FILENO, "lockstep: error: no file descriptor is left: raise the limit (ulimit -n)\n");
  ::_exit(1);
}

}  // namespace lockstep::slurm
