// Slurm's topology.conf <-> Topology. Both of its forms:
//   SwitchName=leaf1 Nodes=n[1-4]            BlockName=b1 Nodes=n[1-18]
//   SwitchName=spine Switches=leaf[1-2]      BlockSizes=18,36
// The tree may be of any depth; a leaf nearer to the top than others stands for itself on the levels it skips. Several
// tops of equal height are a forest. '#' begins a remark, a backslash at the end of a line joins it to the next. The
// remark "# levels: spine, leaf" names the levels, outermost first; without it they are called (…) core, spine, block,
// leaf, as many as there are, and spine and leaf where there are two.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/records.h"

namespace lockstep {

struct TopologyFile {
  Topology topology;
  std::vector<std::size_t> lines;  // per leaf: the line that names its nodes
};

// `levels`, where not empty, names them instead of the file. Errors name file and line: a cycle, a switch that hangs on
// nothing or on two, names that are there twice or not at all, blocks too small for BlockSizes, host lists of more than
// a million names.
Result<TopologyFile> parse_topology(std::string_view name, std::string_view text,
                                    const std::vector<std::string>& levels = {});

// What the file and a cluster of these nodes have not in common, a line each: "t.conf:3: node n9 is not known here".
std::vector<std::string> topology_differences(std::string_view name, const TopologyFile& file,
                                              const std::vector<std::string>& cluster_nodes);

// A switch or block, with everything below it.
struct SwitchView {
  std::string name;
  std::size_t height = 0;  // 0 = a leaf
  std::vector<std::string> nodes, switches;
};
// Leaves first, then upwards, each level in the order of the leaves below; one that stands for itself is there once.
std::vector<SwitchView> switches_of(const Topology& topology);

// As a file that parse_topology() would read again.
std::string topology_text(const Topology& topology);

}  // namespace lockstep
