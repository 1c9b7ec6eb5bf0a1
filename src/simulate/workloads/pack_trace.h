// The openb packing experiment (FGD, USENIX ATC'23, https://www.usenix.org/conference/atc23/presentation/weng): its
// nodes, its pods, and the arrivals a seed makes of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "sched/pack_room.h"

namespace lockstep::sim {

struct PackTrace {
  std::vector<PackRoom> nodes;      // in the order of the file, all idle
  std::vector<std::string> kinds;   // device models by number; a node without devices has none
  std::vector<PackShape> shapes;    // the distinct requests
  std::vector<std::uint32_t> pods;  // shape of each pod, pods by name
  std::int64_t gpu_milli = 0;       // of all nodes
};

// Columns sn, cpu_milli, memory_mib, gpu, model of the nodes; name, cpu_milli, memory_mib, num_gpu, gpu_milli and,
// where there is one, gpu_spec of the pods. Errors name file, line and field.
Result<PackTrace> read_pack_trace(const std::string& nodes_path, const std::string& pods_path);

// The pods' shapes in the order of arrival: shuffled, then drawn again at random until `percent` of the cluster's GPUs
// are asked for; a list that asks for more is thinned at random.
std::vector<std::uint32_t> make_arrivals(const PackTrace& trace, int percent, Rng& rng);

std::vector<std::uint32_t> shuffled(std::size_t count, Rng& rng);  // 0 .. count-1

}  // namespace lockstep::sim
