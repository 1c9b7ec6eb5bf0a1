// What a task says of its own binding where its user asked for it (--cpu-bind=verbose, --mem-bind=verbose of srun(1)),
// in the lines that Slurm's task/affinity plugin writes to the task's error output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/resources.h"
#include "shim/memory_policy.h"

namespace lockstep {

struct BoundTask {
  std::string node;
  std::uint32_t rank = 0, local = 0;
  CoreSet cores;        // none: not bound
  MemoryPolicy memory;  // kNone: not bound
};

// Whole lines, with \x01p where the task's process number goes; "" = its variables ask for none.
std::string binding_words(const std::vector<std::string>& variables, const BoundTask& task);

}  // namespace lockstep
