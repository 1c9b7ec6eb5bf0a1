#include "rules/priorities.h"

#include <utility>

#include "model/directory.h"
#include "model/spec.h"
#include "rules/tres.h"

namespace lockstep {

Priorities::Priorities(const Directory& directory, Spendings spendings, Tres cluster, std::uint32_t most_partition,
                       Instant now)
    : directory_(directory),
      spendings_(std::move(spendings)),
      shares_(directory, spendings_),
      cluster_(std::move(cluster)),
      most_partition_(most_partition),
      now_(now) {}

PriorityFactors Priorities::factors(const JobSpec& spec, const Partition* partition, Instant eligible) const {
  PriorityFactors out = still_factors(directory_, spec, partition, least_tres(spec), cluster_, most_partition_);
  if (eligible && eligible < now_)
    out.age = age_factor(directory_.policy(), now_ - eligible);
  out.fair_share = shares_.factor(directory_, spec.account, spec.user, partition ? partition->meta.name : "");
  return out;
}

Tres tres_of_node(const Node& node) {
  Tres out;
  out.cpu = out.billing = node.cores;
  out.memory_mb = node.memory_mb;
  out.nodes = 1;
  for (const Device& device : node.devices) {
    const std::string name = "gres/" + device.kind;
    if (device.kind == "gpu")
      ++out.gpus;
    else
      add_named(out.others, name, 1);
    if (!device.type.empty())
      add_named(out.others, name + ":" + device.type, 1);
  }
  return out;
}

}  // namespace lockstep
