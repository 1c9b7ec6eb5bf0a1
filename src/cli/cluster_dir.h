// A cluster's state directory (io/local/state_dir.h): where everything of an embedded cluster lives, and the settings
// it was made with.
//
//   cluster.conf            these settings          public/         api.sock, the API's Unix socket; ca.pem
//   controller.run          how the controller fares  lockstep.db     the log        history.db   accounting
//   pki/                    CA and controller keys  log/            controller.log
//   hosts                   /etc/hosts of virtual nodes
//   nodes/NAME/             agent.json, pki/, run/api.sock, init.pid, agent.run, boot_id, gpus, log, shims
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/local/virtual_network.h"

namespace lockstep {

struct ClusterConf {
  std::string name = "lockstep";
  std::uint32_t nodes = 0;  // virtual ones; 0 = this machine itself is the one node
  std::string gpus;         // "8xh100"; "" = none (virtual), or what NVML finds (plain)
  std::uint32_t cpus = 0;   // per node; 0 = the default
  std::int64_t memory_mb = 0;
  std::uint16_t port = 0;          // of the controller
  std::uint32_t move_after_s = 0;  // lockstepd --defragment --move-after; 0 = without
  VirtualNetwork network;
};

struct ClusterDir {
  std::string root;
  std::string id;  // by which its processes are known; "" until the directory is claimed

  std::string file(std::string_view name) const { return root + "/" + std::string(name); }
  std::string node_dir(const std::string& node) const { return root + "/nodes/" + node; }
  std::string socket() const { return file("public/api.sock"); }
  bool exists() const;  // holds a cluster.conf
  Result<ClusterConf> load() const;
  Result<void> save(const ClusterConf& conf) const;
};

// --dir, else $LOCKSTEP_DIR, else ~/.lockstep/default; made absolute.
ClusterDir cluster_dir(const std::string& option);

std::vector<std::string> node_names(const ClusterConf& conf);

struct GpuSpec {
  std::uint32_t count = 0;
  std::string type;
};
Result<GpuSpec> parse_gpus(const std::string& text);            // "8xh100", "8", ""
Result<std::int64_t> parse_memory_mb(const std::string& text);  // "512G", "64000" (MB)

// The directory of this program's binaries, and of the libraries beside it.
std::string program_dir();

}  // namespace lockstep
