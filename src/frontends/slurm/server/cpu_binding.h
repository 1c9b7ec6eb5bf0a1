// Which cores each task of a step is bound to on a node, as --cpu-bind asks for it: srun(1), "Multi-core /
// multi-threaded architectures". A core is one processor here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/resources.h"

namespace lockstep::slurm {

struct BindingPlace {
  CoreSet cores;                                   // of the step on this node
  std::uint32_t node_cores = 1, node_sockets = 1;  // cores of a socket have neighbouring numbers
  std::uint32_t tasks = 1, cores_per_task = 1;
  bool cyclic = true;    // neighbouring tasks go to different sockets (the second part of --distribution)
  bool fcyclic = false;  // and so do neighbouring cores of a task
};

// One set per task; empty: tasks are not bound. What a list names and the step does not have is left out, and a task
// for which nothing is left has all cores of the step, as Slurm does it.
std::vector<CoreSet> bound_cores(std::string_view binding, const BindingPlace& place);

// "block:cyclic" -> whether the second part, which is "cyclic" where nothing is said, spreads over sockets.
bool spreads_over_sockets(std::string_view distribution);

// "0x3": as Slurm writes a set in SLURM_CPU_BIND_LIST.
std::string mask_text(const CoreSet& cores);

}  // namespace lockstep::slurm
