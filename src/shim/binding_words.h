// What a task says of its own binding where its user asked for it (--cpu-bind=verbose, --mem-bind=verbose and
// --gpu-bind=verbose of srun(1)), in the lines that Slurm's plugins write to the task's error output.
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
  std::string gpus;     // what is to be said of its GPUs; "" = nothing
};

// Takes what a task's own variables say of its GPUs out of them (model/binding_note.h).
std::string take_gpu_binding(std::vector<std::string>& variables);

// Whole lines, with \x01p where the task's process number goes; "" = its variables ask for none.
std::string binding_words(const std::vector<std::string>& variables, const BoundTask& task);

}  // namespace lockstep
