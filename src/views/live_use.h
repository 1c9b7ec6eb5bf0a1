// LiveUse: what nodes measured last: their load, their GPUs, and what runs on them has used so far. It is nobody's
// record: what is lost is measured again within a minute.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/agent_messages.h"
#include "model/change.h"
#include "model/job.h"
#include "model/tables.h"
#include "model/work_id.h"

namespace lockstep {

struct NodeMeasures {
  Instant at;                      // when they came
  std::uint32_t load_percent = 0;  // 100 is one process that ran or wanted to over the last minute
  std::int64_t memory_free_mb = 0;
  std::vector<DeviceSample> devices;  // by index, none twice
  std::int64_t memory_used_mb = 0;    // without files that the kernel could drop at once
  Duration window;                    // of cpu_nanos, which is an average; 0 = not known yet
  std::int64_t cpu_nanos = 0;         // billionths of a processor's time that the machine worked
};

// What a container of a task used lately.
struct ContainerUse {
  std::string container;
  Instant at;                  // of the later of two looks
  Duration window;             // between them
  std::int64_t cpu_nanos = 0;  // billionths of a processor, on average over the window
  std::int64_t memory = 0;     // bytes, at the later look
  std::int64_t disk = -1;      // bytes of the node's disk, likewise; -1 = not looked at
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
  // Of the node's containers that were looked at twice, by their task. Null: nothing was heard of the node.
  const std::map<WorkId, std::vector<ContainerUse>>* containers(NodeId id) const;
  // Of a part of the job's present attempt: the sum over its nodes. tasks is 0 where nothing was measured yet.
  WorkUse work(const Job& job, const WorkPart& part) const;

 private:
  struct Of {
    NodeMeasures measures;
    std::map<WorkId, WorkUse> works;
    std::int64_t seen_boot_us = 0;  // of the last look that was told
    Duration cpu;                   // as of then
    std::map<std::pair<WorkId, std::string>, Duration> container_cpu;
    std::map<WorkId, std::vector<ContainerUse>> containers;
    std::vector<StagingSample> staging;
  };
  void take_rates(const Tables& tables, const Node& node, Of& of, std::vector<ContainerSample> told, Duration window);
  std::map<NodeId, Of> nodes_;
};

}  // namespace lockstep
