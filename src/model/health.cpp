#include "model/health.h"

#include <algorithm>

#include "base/text.h"
#include "model/node.h"

namespace lockstep {

bool checks_node(const HealthCheck& check, const Node& node) {
  if (!check.node_class.empty() && check.node_class != node.node_class)
    return false;
  // The core keeps them sorted.
  const auto names = [&](const std::string& name) {
    return std::binary_search(check.nodes.begin(), check.nodes.end(), name);
  };
  return names("ALL") || names(node.meta.name);
}

Instant health_due(const HealthCheck& check, const HealthFinding* finding) {
  if (!finding)
    return {};
  if (finding->began < check.changed)
    return check.changed;
  const Instant due = finding->at ? finding->at + check.every : Instant{};
  return std::max(due, finding->began + std::min(kHealthPause, check.every));
}

std::size_t health_runs_most(std::size_t nodes) { return std::max<std::size_t>(1, nodes / 20); }

const HealthFinding* finding_of(const Node& node, std::string_view check) {
  const auto at = std::lower_bound(node.health.begin(), node.health.end(), check,
                                   [](const HealthFinding& one, std::string_view name) { return one.check < name; });
  return at != node.health.end() && at->check == check ? &*at : nullptr;
}

bool node_checkable(const Node& node, std::string_view check) {
  const HealthFinding* finding = finding_of(node, check);
  if (!finding || !finding->closes)
    return node_usable(node);
  Node without = node;
  without.health[static_cast<std::size_t>(finding - node.health.data())].closes = false;
  return node_usable(without);
}

std::string evidence_of(const HealthFinding& finding) {
  if (!finding.at)
    return {};
  const ExitStatus& exit = finding.exit;
  std::string how = finding.timed_out ? "over its time limit"
                    : exit.oom        ? "out of memory"
                    : exit.not_opened ? std::string("its output cannot be opened")
                    : exit.signal     ? format("ended by signal {}", exit.signal)
                                      : format("exit code {}", exit.code);
  return format("{} (job {})", how, finding.job.value);
}

}  // namespace lockstep
