// A cluster's state directory (io/local/state_dir.h): where everything of an embedded cluster lives, and the settings
// it was made with.
//
//   cluster.conf, .copy     these settings          public/         api.sock, the API's Unix socket; ca.pem
//   controller.run          how the controller fares  lockstep.db     the log        history.db   accounting
//   pki/                    CA and controller keys  log/            controller.log
//   hosts                   /etc/hosts of virtual nodes
//   nodes/NAME/             agent.json, pki/, run/api.sock, init.pid, agent.run, boot_id, gpus, log, shims
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/cluster_conf.h"
#include "cli/listen.h"
#include "ports/http.h"

namespace lockstep {

struct ClusterDir {
  // kOwn: whoever called `lockstep up` made it. The others belong to the machine (docs/decisions/0009-installed.md):
  // the state of the installed controller, and of a node whose controller is elsewhere.
  enum class Kind : unsigned char { kOwn, kController, kNode };

  std::string root;
  std::string id;  // by which its processes are known; "" until the directory is claimed
  Kind kind = Kind::kOwn;

  std::string file(std::string_view name) const { return root + "/" + std::string(name); }
  std::string node_dir(const std::string& node) const { return root + "/nodes/" + node; }
  std::string socket() const;
  bool is_installed() const { return kind != Kind::kOwn; }
  bool exists() const;   // holds a cluster.conf, or its copy; or is the machine's
  bool is_ours() const;  // holds anything by which processes of a cluster are found
  // The copy where the file is damaged (ClusterConf::damage). Where both are, the error says what to do.
  Result<ClusterConf> load() const;
  Result<void> save(const ClusterConf& conf) const;
};

// For a verb that a person waits for: bears with a controller that starts again, and says on standard error whom one
// waits for.
Result<std::unique_ptr<ApiClient>> connect_and_tell(const std::string& socket);

// That there is none, and of which cluster's directory this is a part, if of one.
std::string no_cluster_text(const ClusterDir& dir);

// --dir, else $LOCKSTEP_DIR, else the machine's: the installed controller's or the node's; else ~/.lockstep/default.
// Made absolute.
ClusterDir cluster_dir(const std::string& option);

// Those whose processes run on this machine: virtual nodes, or the machine itself. Virtual machines are none of them.
std::vector<std::string> node_names(const ClusterConf& conf);

// Where an embedded cluster's controller listens.
ListenAt listener_of(const ClusterConf& conf);
// By which its own nodes reach it.
std::string controller_host(const ClusterConf& conf);

struct GpuSpec {
  std::uint32_t count = 0;
  std::string type;
};
Result<GpuSpec> parse_gpus(const std::string& text);            // "8xh100", "8", ""
Result<std::int64_t> parse_memory_mb(const std::string& text);  // "512G", "64000" (MB)

// The directory of this program's binaries, and of the libraries beside it.
std::string program_dir();

}  // namespace lockstep
