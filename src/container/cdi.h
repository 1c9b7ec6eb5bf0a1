// Container Device Interface (CNCF, specification 0.6): what a container needs to see a device, such as a GPU, in files
// that the driver's own tools write: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/program.h"

namespace lockstep {

struct CdiHook {
  std::string when, path;
  std::vector<std::string> args, env;
};

struct CdiEdits {
  std::vector<std::string> env;
  std::vector<std::pair<std::string, std::string>> devices;  // path on the node, path inside
  std::vector<Mount> mounts;
  std::vector<CdiHook> hooks;
  void add(const CdiEdits& other);  // what is there already is not there twice
};

struct CdiSpec {
  std::string kind;  // "nvidia.com/gpu"
  CdiEdits common;   // for whoever gets any of the devices
  std::map<std::string, CdiEdits> devices;
};
Result<CdiSpec> parse_cdi(std::string_view text);

// Those of /etc/cdi and /var/run/cdi, or of the folders given; files that cannot be read are named in notes.
std::vector<CdiSpec> read_cdi(std::span<const std::string> folders, std::vector<std::string>& notes);

// For devices of a kind, by their names ("0", "GPU-…"). An Error names one that no specification has.
Result<CdiEdits> find_cdi(std::span<const CdiSpec> specs, std::string_view kind, std::span<const std::string> names);

}  // namespace lockstep
