// GET /slurm/v1/sinfo: nodes by partition, grouped as sinfo groups them.
#pragma once

#include "frontends/slurm/server/states.h"
#include "views/read_context.h"

namespace lockstep::slurm {

// columns=…; partition, nodes, states: filters; each_node=1 for -N, exact=1 for -e, reasons=1 for -R, responding=1,
// dead=1. Nodes of one partition that agree in every column that tells nodes apart share a row.
PageReply sinfo_page(const ReadContext& context, const PageRequest& request);

// Whether a node is in one of the states of "idle,drain,…". The error names the word that is no state.
class NodeStateSet {
 public:
  static Result<NodeStateSet> parse(std::string_view text);
  bool empty() const { return words_.empty(); }
  bool has(const Node& node, const NodeHolding& holding) const;

 private:
  std::vector<std::string> words_;  // compact forms
};

}  // namespace lockstep::slurm
