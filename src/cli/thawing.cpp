#include "cli/thawing.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "io/local/cgroups.h"

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kThawEvery{50};

void thaw(const std::stop_token& over, const CgroupHost& host, const std::string& prefix) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  do {
    Cgroups::thaw_trees(host, prefix);
  } while (!changed.wait_for(lock, over, kThawEvery, [&over] { return over.stop_requested(); }));
}

}  // namespace

Thawing::Thawing(const std::string& cluster_id, const std::string& node) {
  if (auto host = this_cgroup_host(); host.ok() && host->version == CgroupVersion::kV1)
    thread_ =
        std::jthread(thaw, std::move(*host), node.empty() ? tree_name(cluster_id) + "-" : tree_name(cluster_id, node));
}

}  // namespace lockstep
