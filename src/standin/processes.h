// Which processes use the simulated GPUs. By convention a process does if its CUDA_VISIBLE_DEVICES names the GPU (by
// index, UUID or beginning of one, or by a MIG device's UUID) and none of its children does the same: a script that
// waits for its program is not counted beside it. SIMULATED_GPU_LOAD="PERCENT,MIB" in its environment says how much of
// each GPU it uses; without it 90 % and an eighth of the memory. Only processes whose environment we may read are seen.
#pragma once

#include <string>
#include <vector>

#include "standin/machine.h"

namespace standin {

struct Use {
  unsigned int pid = 0;
  bool mps = false;
  bool on_mig = false;
  unsigned int gpu_instance = 0, compute_instance = 0;
  unsigned int percent = 0;
  unsigned long long bytes = 0;
};

// Of one GPU, by pid. The processes of the machine are looked through at most every 200 ms.
std::vector<Use> uses_of(const Hold&, unsigned int gpu);
void look_anew();  // the next time, however short ago the last was; under the library's lock
std::string process_name(unsigned int pid);

struct Load {
  unsigned int percent = 0;  // at most 100
  unsigned long long bytes = 0;
};
Load load_of(const Hold&, unsigned int gpu);

}  // namespace standin
