// UseBoard: what containers used lately, for controllers, which run on a thread of their own and see records alone.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "frontends/kube/controllers/pod_use.h"
#include "routes/front_end.h"

namespace lockstep::kube {

class UseBoard final : public FrontReader {
 public:
  void begin(const Tables&) override {}
  void change(const Tables& before, const Change& change) override;
  void measured(const Tables& tables, const LiveUse& live, const Node& node) override;

  std::vector<ContainerUse> of(NodeId node, JobId job) const;  // from any thread

 private:
  using Uses = std::map<JobId, std::vector<ContainerUse>>;
  using Nodes = std::map<NodeId, std::shared_ptr<const Uses>>;
  // Replaced by the I/O thread alone, read by any: whoever has one keeps it as it was.
  std::atomic<std::shared_ptr<const Nodes>> nodes_{std::make_shared<const Nodes>()};
};

}  // namespace lockstep::kube
