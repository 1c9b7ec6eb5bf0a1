#include "base/thread.h"

#include <unistd.h>

#include <cstdio>
#include <system_error>

#include "base/text.h"

namespace lockstep {

Result<std::thread> start_thread(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    return Error{Errc::kExhausted,
                 format("the system makes no more threads ({}): end some processes, or raise the limit (ulimit -u, or "
                        "pids.max of the control group)",
                        error.code().message()),
                 {}};
  }
}

std::thread start_thread_or_exit(const char* whose, std::function<void()> work) {
  auto thread = start_thread(std::move(work));
  if (thread)
    return std::move(*thread);
  std::fprintf(stderr, "error: no thread for %s: %s\n", whose, thread.error().message.c_str());
  ::_exit(1);
}

}  // namespace lockstep
