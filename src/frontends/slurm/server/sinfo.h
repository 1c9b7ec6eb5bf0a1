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
  static Result<NodeStateSet> asked(const PageRequest& request);  // its "states"; given without any: no node's
  bool empty() const { return words_.empty() && !is_of_none_; }
  bool is_of_none() const { return is_of_none_; }
  bool has(const Node& node, const NodeHolding& holding) const;

 private:
  std::vector<std::string> words_;  // compact forms
  bool is_of_none_ = false;
};

// Names of partitions; none: all of them. A list that is given, and empty, has one that is no partition's.
std::vector<std::string> partitions_asked(const PageRequest& request);

}  // namespace lockstep::slurm
