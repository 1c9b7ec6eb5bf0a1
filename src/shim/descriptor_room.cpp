#include "shim/descriptor_room.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

namespace {

constexpr std::size_t kOfTheShim = 64;  // its own: sockets, clients, records

// Both ends of a pipe for each stream that goes to the client: they are made before the first task is.
std::size_t pipe_ends_of_a_task(const TaskProcesses& step) {
  if (!step.to_client || step.pty)
    return 0;
  const bool reads = step.process.std_in.empty(), writes = step.process.std_out.empty();
  const bool errs = writes && step.process.std_err.empty();
  return 2 * (std::size_t{reads} + std::size_t{writes} + std::size_t{errs});
}

}  // namespace

Result<void> check_descriptor_room(const TaskProcesses& step, const std::string& host, std::size_t limit) {
  const std::size_t sockets = step.pmi == Pmi::kPmi2 ? 2 : 0;  // the two ends by which a task speaks to lockstep-pmi
  const std::size_t each = pipe_ends_of_a_task(step) + sockets, tasks = step.ranks.size();
  const std::size_t room = limit > kOfTheShim ? limit - kOfTheShim : 0;
  if (each * tasks <= room)
    return {};
  return Error{Errc::kExhausted,
               format("{} task(s) of one step are too many for {}: their input and output take {} open files, and a "
                      "process may have {} there (ulimit -n), which is enough for {}. Use more nodes, or --input and "
                      "--output with a file for each task (%t)",
                      tasks, host, each * tasks, limit, room / each),
               {}};
}

}  // namespace lockstep
