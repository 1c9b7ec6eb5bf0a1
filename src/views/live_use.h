// LiveUse: what nodes measured last: their load, their GPUs, and what runs on them has used so far. It is nobody's
// record: what is lost is measured again within a minute.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/agent_messages.h"
#include "model/change.h"
#include "model/job.h"
#include "model/tables.h"

namespace lockstep {

struct NodeMeasures {
  Instant at;                      // when they came
  std::uint32_t load_percent = 0;  // 100 is one process that ran or wanted to over the last minute
  std::int64_t memory_free_mb = 0;
  std::vector<DeviceSample> devices;  // by index, none twice
};

class LiveUse {
 public:
  static constexpr std::size_t kWorksMost = 8192;  // of one node that are kept

  // A node's word, which replaces its last one. What it tells of attempts that it does not hold is left out.
  void take(const Tables& tables, const Node& node, Telemetry told, Instant now);
  // Nodes that left are forgotten.
  void apply(const std::vector<Change>& changes);

  const NodeMeasures* node(NodeId id) const;  // null: nothing was heard
  // What is being copied for the job's present attempt, by node.
  std::vector<std::pair<NodeId, StagingSample>> staging(const Job& job) const;
  // Of a part of the job's present attempt: the sum over its nodes. tasks is 0 where nothing was measured yet.
  WorkUse work(const Job& job, const WorkPart& part) const;

 private:
  struct Of {
    NodeMeasures measures;
    std::map<WorkId, WorkUse> works;
    std::vector<StagingSample> staging;
  };
  std::map<NodeId, Of> nodes_;
};

}  // namespace lockstep
