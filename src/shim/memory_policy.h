// From which NUMA nodes a task's memory comes: --mem-bind of srun(1), by set_mempolicy(2). Like processors, nodes are
// numbered as the kernel numbers them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bitmap.h"

namespace lockstep {

using MemoryNodes = Bitmap<128>;

struct MemoryPolicy {
  enum class Mode : unsigned char {
    kNone,       // as it is
    kLocal,      // the node of the processor that asks for it, however the shim's own memory is bound
    kBound,      // these nodes, and no others
    kPreferred,  // these first
  } mode = Mode::kNone;
  MemoryNodes nodes;
  friend bool operator==(const MemoryPolicy&, const MemoryPolicy&) = default;
};

// Of the task with this rank on its node. Words: [quiet|verbose,][prefer,][sort|nosort,] and none, local, rank,
// map_mem:N[*TIMES],… or mask_mem:MASK[*TIMES],…, whose parts go to the tasks in turn. What is not understood binds
// nothing.
MemoryPolicy memory_policy(std::string_view binding, std::uint32_t local_rank);

// For the calling thread and what it executes. A wish: false where the machine has none of these nodes, and nothing
// changes. Needs no memory, so that a child of vfork may call it.
bool set_memory_policy(const MemoryPolicy& policy);

}  // namespace lockstep
