#include "io/local/thawing.h"

#include <unistd.h>

#include "io/local/cgroups.h"

namespace lockstep {

namespace {
constexpr useconds_t kThawEvery = 20'000;
}

Thawing::Thawing(const std::string& cluster_id, const std::string& node) {
  auto host = this_cgroup_host();
  if (!host.ok() || host->version != CgroupVersion::kV1)
    return;
  const std::string prefix = node.empty() ? tree_name(cluster_id) + "-" : tree_name(cluster_id, node);
  auto started = start_thread([this, prefix, host = std::move(*host)] {
    for (; !over_; ::usleep(kThawEvery)) Cgroups::thaw_trees(host, prefix);
  });
  if (started)
    thread_ = std::move(*started);
}

Thawing::~Thawing() {
  over_ = true;
  if (thread_.joinable())
    thread_.join();
}

}  // namespace lockstep
