// Makes what runc needs to run one life of a container of root's sandbox: fetches its image, mounts its files in the
// mount namespace that the sandbox's keeper has made, and writes the configuration (docs/decisions/0021-pods.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/sandbox.h"
#include "wire/container_word.h"
#include "wire/front_end_files.h"

namespace lockstep {

struct BundleAsk {
  std::string home;    // of root's images and containers on this node
  std::string folder;  // of the sandbox: wire/sandbox_paths.h
  Sandbox sandbox;     // with this container alone, whose variables are settled
  std::uint32_t life = 0;
  std::string group;          // its control group
  std::string process_space;  // see OciPlan
  std::vector<FrontEndFiles::Login> logins;
};

// kImage, or why it cannot be run. tell: what is told before.
ContainerWord make_bundle(const BundleAsk& ask, const std::function<void(const ContainerWord&)>& tell);

}  // namespace lockstep
