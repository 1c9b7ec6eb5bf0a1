// `lockstep node fault`: something goes wrong with a simulated GPU of a node that this machine plays.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster_dir.h"

namespace lockstep {

// words: NODE GPU FAULT…, or NODE GPU none, which mends the GPU. The fault is added to those it has.
Result<void> add_gpu_faults(const ClusterDir& dir, const std::vector<std::string>& words);

// Whether the stand-in for NVIDIA's library knows a fault of this name: "xid=79", "lost", "ecc=2".
bool is_gpu_fault(std::string_view fault);

// The driving file's text without the faults of a GPU, and with these.
std::string with_gpu_faults(const std::string& text, std::uint64_t gpu, const std::vector<std::string>& faults);

}  // namespace lockstep
