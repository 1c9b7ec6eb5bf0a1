// The configuration of a container of root's as runc reads it (Open Container Initiative, runtime specification 1.0:
// config.md, config-linux.md). What a container has by default is what Docker and containerd give: capabilities, masked
// paths, devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "container/cdi.h"
#include "container/image_user.h"
#include "model/sandbox.h"

namespace lockstep {

struct OciMount {
  std::string source, target;
  bool read_only = false;
  std::vector<std::string> options;
};

struct OciPlan {
  std::vector<std::string> argv, env;
  std::string work_dir = "/";
  ImageUser user;
  ContainerRights rights;         // but for who it is
  std::uint64_t at_hand = ~0ull;  // capabilities that its maker has, by number: nobody gives others
  bool terminal = false;
  std::vector<OciMount> mounts;  // in this order, over what every container has
  std::string shm;               // folder; "" = the node's
  CdiEdits devices;
  std::string group;            // control group, from the root of every hierarchy; "" = runc names one
  std::string process_space;    // file of the PID namespace to join; "" = its own
  bool node_processes = false;  // none at all
  bool node_ipc = false;
  std::uint32_t milli_cores = 0, cpu_weight = 0;  // as of SandboxContainer
  std::uint64_t memory_bytes = 0;
  std::int32_t oom_score = 0;  // how willingly the kernel kills it when the node has no memory left: up to 1000
  std::string seccomp;         // JSON of a filter that takes the usual one's place; "" = the usual one
};

// The capabilities that the rights come to, as "CAP_CHOWN"; "all" are those at hand. An Error names one that there is
// not.
Result<std::vector<std::string>> capabilities_of(const ContainerRights& rights, std::uint64_t at_hand = ~0ull);

// A whole config.json, for the root "rootfs" beside it.
Result<std::string> oci_config(const OciPlan& plan);
// Its process, for a program that is run beside the container's own, up to its words: `, "terminal": …, "args": […]}`
// is to follow.
Result<std::string> oci_process_head(const OciPlan& plan);

}  // namespace lockstep
