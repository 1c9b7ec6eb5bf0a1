// UseBoard: what containers used lately, for controllers, which run on a thread of their own and see records alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>
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
  mutable std::mutex guard_;  // held for a look into a map, never for making one
  std::map<NodeId, std::shared_ptr<const Uses>> nodes_;
};

}  // namespace lockstep::kube
