// cluster.conf: the settings an embedded cluster was made with, as text. A copy lies beside it, and both end with a
// check over the rest: a damaged one is noticed, and keeps nobody from starting or stopping the cluster.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/local/virtual_network.h"

namespace lockstep {

inline constexpr const char* kConfFile = "cluster.conf";
inline constexpr const char* kConfCopyFile = "cluster.conf.copy";

inline constexpr std::uint32_t kVmsMax = 9;  // scripts/vm has names for so many

struct ClusterConf {
  std::string name = "lockstep";
  std::uint32_t nodes = 0;  // virtual ones; 0 = this machine itself is the one node
  std::string gpus;         // "8xh100"; "" = none (virtual), or what NVML finds (plain)
  std::uint32_t cpus = 0;   // per node; 0 = the default
  std::int64_t memory_mb = 0;
  std::uint32_t vms = 0;  // nodes that are virtual machines (cli/vm_nodes.h), beside the virtual ones
  std::uint32_t vm_cpus = 0;
  std::int64_t vm_memory_mb = 0;
  std::uint16_t port = 0;               // of the controller
  std::string listen;                   // address for other machines; "" = this machine's nodes only
  std::uint32_t move_after_s = 0;       // lockstepd --defragment --move-after; 0 = without
  std::uint32_t unkillable_s = 60;      // lockstepd --unkillable-after
  std::uint32_t namespace_objects = 0;  // lockstepd --namespace-objects; 0 = its default
  VirtualNetwork network;

  // Its nodes hang on a bridge of its own; else this machine itself is the one node.
  bool has_bridge() const { return nodes > 0 || vms > 0; }

  std::string damage;  // why not cluster.conf but its copy was read; not written
};

std::string conf_text(const ClusterConf& conf);
// The error says what is wrong with the text. One that somebody wrote or changed by hand has no check, and is taken.
Result<ClusterConf> parse_conf(const std::string& text);

// A word that may be written there, and is a cluster's name elsewhere: letters, digits, - _ and ., at most 64.
Result<void> check_plain_word(const std::string& option, const std::string& word);

}  // namespace lockstep
