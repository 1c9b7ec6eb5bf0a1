#include "core/nodes.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/attempts.h"
#include "core/directory.h"
#include "core/growth.h"
#include "core/reservations.h"
#include "core/topology.h"

namespace lockstep {

namespace {

constexpr const char* kSilent = "Not responding";

std::vector<JobId> jobs_on(const Txn& txn, NodeId node) {
  const auto it = txn.inner().jobs_on.find(node);
  return it == txn.inner().jobs_on.end() ? std::vector<JobId>()
                                         : std::vector<JobId>(it->second.begin(), it->second.end());
}

// Nothing that was started there before now lives any more.
void prove_stopped(Txn& txn, const Node& node) {
  const std::string reason = format("NodeDown {}", node.meta.name);
  for (JobId id : jobs_on(txn, node.id)) {
    const Ref<Job> job = txn.job(id);
    const auto live = live_nodes(*job);
    if (job->state == JobState::kCompleting && std::find(live.begin(), live.end(), node.id) != live.end())
      member_lost(txn, id, node.id, reason);  // before the proof ends the job: whose failure was it?
    member_gone(txn, id, node.id, reason);
  }
  let_return(txn, node.id);
}

Result<void> check_facts(const Node& facts) {
  if (facts.meta.name.empty())
    return invalid("a node needs a name", "name");
  if (facts.boot_id.empty())
    return invalid(format("node {} does not say which boot this is", facts.meta.name), "boot_id");
  if (facts.cores == 0 || facts.cores > CoreSet::kCapacity)
    return invalid(
        format("node {} has {} cores; 1 to {} are possible", facts.meta.name, facts.cores, CoreSet::kCapacity),
        "cores");
  if (facts.devices.size() > DeviceSet::kCapacity)
    return invalid(
        format("node {} has {} devices; {} are possible", facts.meta.name, facts.devices.size(), DeviceSet::kCapacity),
        "devices");
  if (facts.memory_mb < 0)
    return invalid(format("node {} has less than no memory", facts.meta.name), "memory_mb");
  return {};
}

}  // namespace

Result<Answer> node_hello(Txn& txn, const NodeHello& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  TRY(check_facts(ask.facts));
  Node node = ask.facts;
  const Node* known = txn.tables().node(node.meta.name);
  const bool rebooted = known && known->boot_id != node.boot_id;
  if (known) {
    node.id = known->id;
    node.meta = known->meta;
    node.weight = known->weight;
    node.drain = known->drain;
    if (node.features.empty())
      node.features = known->features;
    const bool over = known->reason == kSilent && !known->reason_by && !known->drain;
    node.reason = over ? "" : known->reason;
    node.reason_by = known->reason_by;
    node.reason_at = over ? Instant{} : known->reason_at;
  } else {
    node.id = txn.new_node_id();
    node.drain = false;
    node.reason.clear();
  }
  node.domains = domains_of(txn.tables(), node);
  node.boot_at = !known || rebooted ? txn.now() : known->boot_at;
  node.link = NodeLink::kUp;
  node.seen_at = txn.now();
  const bool back = !known || known->link != NodeLink::kUp || rebooted;
  const Ref<Node> made = txn.put(std::move(node));
  if (back)
    txn.event(Kind::kNode, made->meta, known ? "NodeBack" : "NodeRegistered", made->meta.name);
  if (rebooted)
    prove_stopped(txn, *made);
  return Answer{.node = made->id, .seq = made->meta.seq};
}

Result<void> node_lost(Txn& txn, const NodeLost& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  if (!known || known->link == NodeLink::kLost)
    return {};
  Node node = *known;
  node.link = NodeLink::kLost;
  node.seen_at = txn.now();
  if (node.reason.empty()) {
    node.reason = kSilent;
    node.reason_by = {};
    node.reason_at = txn.now();
  }
  txn.event(Kind::kNode, node.meta, "NodeLost", node.meta.name);
  txn.put(std::move(node));
  replace_reserved(txn, known->meta.name);
  for (JobId id : jobs_on(txn, ask.node)) {
    const Ref<Job> job = txn.job(id);
    const auto live = live_nodes(*job);
    if (std::find(live.begin(), live.end(), ask.node) != live.end())
      member_lost(txn, id, ask.node, format("NodeDown {}", known->meta.name));
    if (mutant(Mutant::kSkipFence))
      member_gone(txn, id, ask.node, "NodeDown");
  }
  return {};
}

Result<void> node_fenced(Txn& txn, const NodeFenced& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  if (!known || (known->boot_id != ask.boot_id && !mutant(Mutant::kStaleBoot)))
    return {};  // a newer boot has proven as much already
  txn.event(Kind::kNode, known->meta, "NodeFenced", ask.proof);
  TRY(node_lost(txn, {ask.node}));
  prove_stopped(txn, *known);
  return {};
}

Result<Answer> update_node(Txn& txn, const UpdateNode& ask) {
  TRY(need_admin(txn, "change nodes"));
  const Node* known = txn.tables().node(ask.name);
  if (!known)
    return not_found(format("Invalid node name specified: {}", ask.name));
  Node node = *known;
  if (ask.drain) {
    node.drain = *ask.drain;
    if (!*ask.drain && node.link == NodeLink::kUp) {
      node.reason.clear();
      node.reason_by = {};
      node.reason_at = {};
    }
  }
  if (ask.reason) {
    node.reason = *ask.reason;
    node.reason_by = txn.caller().user;
    node.reason_at = ask.reason->empty() ? Instant{} : txn.now();
  }
  if (ask.weight)
    node.weight = *ask.weight;
  if (ask.features)
    node.features = *ask.features;
  ++node.meta.generation;
  const Ref<Node> made = txn.put(std::move(node));
  if (ask.drain && *ask.drain)
    replace_reserved(txn, made->meta.name);
  return Answer{.node = made->id, .seq = made->meta.seq};
}

Result<void> remove_node(Txn& txn, const RemoveNode& ask) {
  TRY(need_admin(txn, "remove nodes"));
  const Node* known = txn.tables().node(ask.name);
  if (!known)
    return not_found(format("Invalid node name specified: {}", ask.name));
  if (known->link == NodeLink::kUp)
    return conflict(format("node {} is up: stop its agent first", ask.name));
  let_return(txn, known->id);
  if (!jobs_on(txn, known->id).empty())
    return conflict(format("node {} still holds jobs that are not proven stopped", ask.name));
  txn.remove(txn.node(known->id));
  return {};
}

}  // namespace lockstep
