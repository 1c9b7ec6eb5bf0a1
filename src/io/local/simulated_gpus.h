// What programs on a virtual node with simulated GPUs find, as on a machine with NVIDIA's driver: libnvidia-ml.so.1 by
// the dynamic linker's cache, nvidia-smi in /usr/local/bin, and the file that drives them in /run/lockstep.
#pragma once

#include <string>

#include "base/result.h"

namespace lockstep {

struct SimulatedGpus {
  std::string node_dir;     // holds the driving file, "gpus"
  std::string library_dir;  // holds libnvidia-ml.so.1, and nvidia-smi in simulated-gpus/
};

// In a mount namespace of the node's own, with its /run in place. On a machine with NVIDIA's own nvidia-smi only the
// driving file is put there. An error leaves the node usable: its jobs do without nvidia-smi or the library then.
Result<void> show_simulated_gpus(const SimulatedGpus& gpus);

// The linker's cache once more, where it is the machine's again: `ldconfig` puts a new file in its place, as when any
// package is installed, and the kernel takes away what was mounted on the old one. Nothing to do is no error.
Result<void> show_library_again(const SimulatedGpus& gpus);

// Whether one file is seen at both paths.
bool is_shown_at(const std::string& file, const std::string& target);

}  // namespace lockstep
