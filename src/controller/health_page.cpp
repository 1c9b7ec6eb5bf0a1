#include "controller/health_page.h"

#include <utility>
#include <vector>

#include "model/node.h"
#include "model/records.h"
#include "wire/health_rows.h"

namespace lockstep {

namespace {

// What its agent says: it looks for itself (docs/hooks.md).
HealthRow own_row(const Node& node, Duration offset) {
  HealthRow row{.node = node.meta.name, .check = {}, .evidence = node.word};
  row.verdict = node.unfit           ? HealthVerdict::kBad
                : !node.word.empty() ? HealthVerdict::kSuspect
                                     : HealthVerdict::kHealthy;
  row.closes = node.unfit;
  row.at_us = (node.word.empty() ? node.seen_at : node.word_at).us + offset.us;
  return row;
}

HealthRow row_of_check(const Node& node, const std::string& check, const HealthFinding* finding, Duration offset) {
  HealthRow row{.node = node.meta.name, .check = check, .evidence = {}};
  if (!finding || !finding->at)
    return row;
  row.verdict = finding->verdict;
  row.closes = finding->closes;
  row.at_us = finding->at.us + offset.us;
  row.job = finding->job;
  row.evidence = evidence_of(*finding);
  return row;
}

struct Written {
  std::vector<Ref<Node>> nodes;
  std::vector<Ref<HealthCheck>> checks;
  Duration offset;
  std::size_t at = 0;
  bool first = true;

  void add(const HealthRow& row, std::string& out) {
    out += std::exchange(first, false) ? "" : ",";
    out += encode(row);
  }
  void write(const Node& node, std::string& out) {
    add(own_row(node, offset), out);
    for (const Ref<HealthCheck>& check : checks)
      if (checks_node(*check, node))
        add(row_of_check(node, check->meta.name, finding_of(node, check->meta.name), offset), out);
  }
};

}  // namespace

PageReply health_page(const ReadContext& context, const PageRequest& request) {
  Written written;
  written.offset = context.wall_offset;
  const auto name = request.query.find("node");
  for (const auto& [id, node] : context.tables.nodes)
    if (name == request.query.end() || node->meta.name == name->second)
      written.nodes.push_back(node);
  for (const auto& [key, check] : context.tables.health_checks) written.checks.push_back(check);
  PageReply reply{200, "application/json", "{\"rows\":[", {}};
  reply.more = [written = std::move(written)](std::string& out) mutable {
    constexpr std::size_t kNodesAtOnce = 32;
    for (std::size_t n = 0; n < kNodesAtOnce && written.at < written.nodes.size(); ++n)
      written.write(*written.nodes[written.at++], out);
    if (written.at < written.nodes.size())
      return true;
    out += "]}";
    return false;
  };
  return reply;
}

}  // namespace lockstep
