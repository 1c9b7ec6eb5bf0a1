// lockstep-container: started by lockstep-shim in the place of a task's program, and after the last task, and by
// lockstep-agent while a user's jobs are there; see src/container/step_container.h. It has the user's rights and no
// others. Not for people to run.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "container/enroot.h"
#include "container/image_exchange.h"
#include "container/lasting_sweep.h"
#include "container/sandbox_program.h"
#include "container/step_container.h"
#include "model/containers_variable.h"

namespace {

constexpr const char* kHelp = "lockstep-container is started by lockstep-shim, for tasks that run in a container\n";

// Where the tasks wrote their errors, if that is a file.
void open_log(const char* path) {
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC);
  if (fd >= 0)
    ::dup2(fd, 2);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("lockstep-container " LOCKSTEP_VERSION);
    return 0;
  }
  // Nobody but root may read this program, so that a user cannot take over those of its processes that are in no job's
  // control groups. Those of a job's own belong to him.
  if (argc >= 3 && std::strcmp(argv[1], "sweep") == 0)
    return sweep_containers(argv[2], {argv + 3, argv + argc});
  if (argc == 3 && std::strcmp(argv[1], "lasting") == 0)
    return sweep_lasting_volumes(argv[2]);
  if (argc == 4 && std::strcmp(argv[1], "room") == 0)
    return drop_unused_images(argv[2], argv[3]);
  if (argc == 4 && std::strcmp(argv[1], "serve") == 0)
    return serve_images(argv[2], argv[3], 0);
  if (argc == 7 && std::strcmp(argv[1], "bundle") == 0)
    return run_bundle({argv[2], argv[3], argv[4], argv[5], argv[6]});
  if (argc == 5 && std::strcmp(argv[1], "files") == 0)
    return run_front_end_files(argv[2], argv[3], argv[4]);
  ::prctl(PR_SET_DUMPABLE, 1);
  if (argc > 1 && std::strcmp(argv[1], "enroot") == 0) {
    const char* home = std::getenv(kContainersVariable);
    return run_enroot(home && ::access(home, W_OK | X_OK) == 0 ? home : "", {argv + 2, argv + argc});
  }
  const bool enters = argc > 1 && std::strcmp(argv[1], "enter") == 0;
  const bool finishes = argc > 1 && std::strcmp(argv[1], "finish") == 0;
  if (!enters && !finishes) {
    std::fputs(kHelp, stderr);
    return 2;
  }
  InnerTask task;
  for (char** line = environ; *line; ++line) task.env.emplace_back(*line);
  auto step = take_step_container(task.env);
  if (!step.ok()) {
    std::fprintf(stderr, "lockstep: error: container: %s\n", step.error().message.c_str());
    return 2;
  }
  int at = 2;
  for (; at + 1 < argc && std::strcmp(argv[at], "--") != 0; at += 2)
    if (std::strcmp(argv[at], "--script") == 0)
      step->script = argv[at + 1];
    else if (std::strcmp(argv[at], "--log") == 0)
      open_log(argv[at + 1]);
  if (finishes)
    return finish_container(*step);
  task.words.assign(argv + std::min(at + 1, argc), argv + argc);
  return run_in_container(*step, std::move(task));
}
