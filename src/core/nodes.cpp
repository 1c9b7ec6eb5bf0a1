#include "core/nodes.h"

#include <algorithm>

#include "base/characters.h"
#include "base/hostlist.h"
#include "base/mutant.h"
#include "base/text.h"
#include "core/attempts.h"
#include "core/confirm.h"
#include "core/directory.h"
#include "core/growth.h"
#include "core/health.h"
#include "core/node_classes.h"
#include "core/node_terms.h"
#include "core/older_log.h"
#include "core/reservations.h"
#include "core/staging.h"
#include "core/tokens.h"
#include "core/topology.h"
#include "model/bounds.h"
#include "model/job.h"
#include "rules/need.h"

namespace lockstep {

namespace {

constexpr const char* kSilent = "Not responding";
constexpr const char* kRevokedReason = "Certificate revoked";

std::vector<JobId> jobs_on(const Txn& txn, NodeId node) {
  const auto it = txn.inner().jobs_on.find(node);
  return it == txn.inner().jobs_on.end() ? std::vector<JobId>()
                                         : std::vector<JobId>(it->second.begin(), it->second.end());
}

constexpr std::size_t kProvenAtOnce = 100;  // jobs on a node that comes back as another boot

// Whether this part of a command is done with the job; one that has worked enough goes on from it.
bool turn_of(Txn& txn, JobId id) {
  if (id.value < txn.part().from)
    return false;
  if (txn.tired())
    txn.cut({id.value, true});
  return true;
}

// Nothing that was started there before now lives any more.
enum class Proof : unsigned char { kAtOnce, kInParts };

// False: the command goes on with the rest.
bool prove_stopped(Txn& txn, const Node& node, Proof how) {
  const std::string reason = format("NodeDown {}", node.meta.name);
  for (JobId id : jobs_on(txn, node.id)) {
    if (how == Proof::kInParts && !turn_of(txn, id))
      continue;
    if (txn.is_cut())
      return false;
    const Ref<Job> job = txn.job(id);
    if (job->state == JobState::kCompleting && lives_on(txn.inner(), *job, node.id)) {
      if (job->started && !job->spec->stage_out.empty())
        note_staging_trouble(txn, id, node.id, "the node was gone before everything was copied");
      member_lost(txn, id, node.id, reason);  // before the proof ends the job: whose failure was it?
    }
    member_gone(txn, id, node.id, reason);
  }
  let_return(txn, node.id);
  return true;
}

Result<void> check_facts(const Node& facts) {
  if (!is_node_name(facts.meta.name))
    return invalid(format("\"{}\" is no name of a node: letters, digits, \"-\", \"_\" and \".\" are", facts.meta.name),
                   "name");
  if (facts.boot_id.empty())
    return invalid(format("node {} does not say which boot this is", facts.meta.name), "boot_id");
  return {};
}

// Another machine bears the name now, so its boot proves nothing about the one before.
Result<void> check_predecessor_stopped(const Txn& txn, const Node& known) {
  for (const JobId id : jobs_on(txn, known.id)) {
    const Ref<Job> job = txn.job(id);
    if (lives_on(txn.inner(), *job, known.id) && job->allocation->fence_after < kForever)
      return conflict(
          format("the machine that was node {} may still run job {}: this one is let in when that is proven stopped or "
                 "its fence has passed. If it will not come back: lockstep node revoke {} --now, on the controller's "
                 "machine, then join again",
                 known.meta.name, id.value, known.meta.name));
  }
  return {};
}

// What a node may say of itself. The rest of its record is the cluster's.
Node plain_facts(const Node& facts) {
  Node node = facts;
  node.meta = {};
  node.meta.name = facts.meta.name;
  node.drain = node.unfit = false;
  node.unconfirmed.clear();
  node.health.clear();
  node.reason.clear();
  node.reason_by = {};
  node.reason_at = {};
  node.word.clear();
  node.word_at = {};
  node.added_counted.clear();
  node.labels.clear();
  node.marks.clear();
  node.certificate.clear();
  node.next_certificate.clear();
  node.replaced = node.trust_administrators = false;
  node.node_class.clear();
  node.own_features.clear();
  node.own_weight = 0;
  node.terms = {};
  return node;
}

// What the node says is wrong with it, until it says something else. An administrator's words stand beside it.
void take_word(Node& node, const Node& facts, const Node* known, Instant now) {
  node.unfit = facts.drain;
  node.word = without_control_characters(facts.reason, kPhraseBytesMax / 2);
  if (known && known->word == node.word)
    node.word_at = known->word_at;
  else
    node.word_at = node.word.empty() ? Instant{} : now;
}

// What the node runs short of, each once; since when is told from word to word.
void take_shortages(Node& node, const Node* known, Instant now) {
  auto& all = node.shortages;
  std::ranges::stable_sort(all, {}, &Shortage::what);
  all.erase(std::unique(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.what == b.what; }),
            all.end());
  for (Shortage& one : all) {
    one.since = one.measured = now;
    if (!known)
      continue;
    for (const Shortage& before : known->shortages)
      if (before.what == one.what)
        one.since = before.since;
  }
}

void set_lost(Txn& txn, const Node& known) {
  if (known.link == NodeLink::kLost)
    return;
  Node node = known;
  node.link = NodeLink::kLost;
  node.seen_at = txn.now();
  if (node.reason.empty()) {
    node.reason = kSilent;
    node.reason_by = {};
    node.reason_at = txn.now();
  }
  txn.event(Kind::kNode, node.meta, "NodeLost", node.meta.name);
  txn.put(std::move(node));
  replace_reserved(txn, known.meta.name);
}

// An administrator's words end with the drain they were said of. What else keeps the node away is still so.
void forget_why_drained(Node& node, Instant now) {
  const bool is_lost = node.link == NodeLink::kLost;
  const bool silent = is_lost && node.reason == kSilent && !node.reason_by;
  const bool revoked = is_lost && node.certificate == kNoCertificate && node.reason.starts_with(kRevokedReason);
  if (silent || revoked)
    return;
  node.reason = is_lost ? kSilent : "";
  node.reason_by = {};
  node.reason_at = is_lost ? now : Instant{};
}

// What the node has seen counts once in an epoch. One that this log does not know may have joined after it was copied.
Answer hear_out(Txn& txn, const Node& node, const NodeHello& ask) {
  const Answer answer{.node = node.id, .seq = node.meta.seq};
  if (txn.inner().epoch.heard.contains(node.id) || learn_from(txn, node, ask))
    txn.note_heard(answer.node);
  return answer;
}

// What is said of the node stands beside what it says itself, which counts where both name the same.
void add_counted_of(Node& node, const std::vector<Counted>& added) {
  std::erase_if(node.counted, [&](const Counted& one) {
    return std::ranges::find(node.added_counted, one) != node.added_counted.end();
  });
  node.added_counted.clear();
  for (const Counted& one : added)
    if (one.count > 0 && count_of(node.counted, one.name) == 0) {
      add_counted(node.counted, {one}, 1);
      add_counted(node.added_counted, {one}, 1);
    }
}

// What the record keeps of a node when its agent says hello again with these facts.
void keep_known(Node& node, const Node& known, const std::string& certificate) {
  const bool classed = !known.node_class.empty();
  node.id = known.id;
  node.meta = known.meta;
  node.weight = classed ? known.own_weight : known.weight;
  node.drain = known.drain;
  node.unconfirmed = known.unconfirmed;
  node.health = known.health;
  node.terms = known.terms;
  const bool over =
      (known.reason == kSilent && !known.reason_by) || (!known.drain && known.reason.starts_with(kRevokedReason));
  node.reason = over ? "" : known.reason;
  node.reason_by = over ? UserId() : known.reason_by;
  node.reason_at = over ? Instant{} : known.reason_at;
  const bool is_successor = !known.next_certificate.empty() && certificate == known.next_certificate;
  node.certificate = known.certificate.empty() || is_successor ? certificate : known.certificate;
  node.next_certificate = is_successor ? "" : known.next_certificate;
  node.trust_administrators = known.trust_administrators;
  node.labels = known.labels;
  node.marks = known.marks;
}

// A node that this log does not know: one with a certificate has joined, and an admission says so.
Result<void> make_known(Txn& txn, Node& node, const std::string& certificate) {
  if (!certificate.empty()) {
    const auto admission = admit(txn, node.meta.name, certificate);
    if (!admission && !mutant(Mutant::kRevokedCertificate))
      return denied(
          format("there is no node {} with certificate {}: it was removed, or never joined. Join with a token of "
                 "`lockstep node token --node {}`",
                 node.meta.name, certificate, node.meta.name));
    if (admission) {
      node.trust_administrators = admission->trust_administrators;
      node.terms.address = admission->address;
      node.terms.task_range = admission->task_range;
    }
  }
  node.certificate = certificate;
  node.id = txn.new_node_id();
  return {};
}

// A weight that the node's class sets would be said in vain.
Result<void> check_weight_is_own(const Tables& tables, const Node& node, const UpdateNode& ask) {
  const auto one = tables.node_classes.find(node.node_class);
  if (!ask.weight || one == tables.node_classes.end() || one->second->weight == 0)
    return {};
  return Error{Errc::kConflict,
               format("node {} has its weight {} from node class {}: change it there", ask.name, one->second->weight,
                      node.node_class),
               "weight"};
}

// The changes that only an administrator's words make, besides its drain.
void change_facts(Txn& txn, Node& node, const UpdateNode& ask) {
  if (ask.reason) {
    node.reason = *ask.reason;
    node.reason_by = txn.caller().user;
    node.reason_at = ask.reason->empty() ? Instant{} : txn.now();
  }
  if (ask.weight)
    node.weight = *ask.weight;
  if (ask.features)
    node.features = *ask.features;
  if (ask.trust_administrators)
    node.trust_administrators = *ask.trust_administrators;
  if (ask.labels) {
    node.labels = *ask.labels;
    std::ranges::stable_sort(node.labels, {}, [](const auto& label) { return label.first; });
  }
  if (ask.marks)
    node.marks = *ask.marks;
  if (ask.added_counted)
    add_counted_of(node, *ask.added_counted);
}

// From now on no certificate is the node's. Why it was away before that is still told.
void revoke_certificate(Txn& txn, Node& node, bool keeps_reason) {
  node.certificate = kNoCertificate;
  node.next_certificate.clear();
  if (keeps_reason)
    return;
  const bool said = !node.reason.empty() && node.reason != kSilent;
  node.reason = said ? format("{} ({})", kRevokedReason, node.reason) : kRevokedReason;
  node.reason_by = txn.caller().user;
  node.reason_at = txn.now();
}

}  // namespace

std::string not_lost_yet(const Txn& txn, const Node& node) {
  if (node.link == NodeLink::kUp)
    return format("node {} is up: stop its agent first", node.meta.name);
  return format("node {} has not been heard for {} s, and is not given up yet: wait until it is lost", node.meta.name,
                (txn.now() - node.seen_at).seconds());
}

Result<void> check_certificate(const Node& known, const std::string& certificate) {
  const bool is_successor = !known.next_certificate.empty() && known.next_certificate == certificate;
  if (known.certificate.empty() || known.certificate == certificate || is_successor ||
      mutant(Mutant::kRevokedCertificate))
    return {};
  return denied(format(
      "certificate {} of node {} counts no more: an administrator revoked it, or the name was given out again. Join "
      "anew with a token of `lockstep node token --node {}`",
      certificate.empty() ? "(none)" : certificate, known.meta.name, known.meta.name));
}

namespace {

// Writes the node as one that is up. known: its record before, null if there was none.
Ref<Node> put_up(Txn& txn, Node node, const Node* known, bool rebooted) {
  node.domains = domains_of(txn.tables(), node);
  with_class(txn.inner(), node);
  node.boot_at = !known || rebooted ? txn.now() : known->boot_at;
  node.link = NodeLink::kUp;
  node.seen_at = txn.now();
  const bool is_new = !known, back = is_new || known->link == NodeLink::kLost || rebooted;
  const Ref<Node> made = txn.put(std::move(node));
  if (back)
    txn.event(Kind::kNode, made->meta, is_new ? "NodeRegistered" : "NodeBack", made->meta.name);
  return made;
}

}  // namespace

Result<Answer> renew_certificate(Txn& txn, const RenewCertificate& ask) {
  TRY(need_admin(txn, "hand out certificates"));
  const Node* known = txn.tables().node(ask.node);
  if (!known)
    return not_found(format("there is no node {}", ask.node));
  TRY(check_certificate(*known, ask.certificate));
  CHECK(!ask.next.empty(), "a certificate without a serial");
  Node node = *known;
  node.next_certificate = ask.next;
  const Ref<Node> made = txn.put(std::move(node));
  txn.event(Kind::kNode, made->meta, "CertificateRenewed", made->meta.name);
  return Answer{.node = made->id, .seq = made->meta.seq};
}

Result<Answer> node_hello(Txn& txn, const NodeHello& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  TRY(check_facts(ask.facts));
  Node node = plain_facts(ask.facts);
  const Node* known = txn.tables().node(node.meta.name);
  const bool rebooted = known && known->boot_id != node.boot_id;
  if (known)
    TRY(check_certificate(*known, ask.certificate));
  if (known && goes_on_learning(txn))
    return hear_out(txn, *known, ask);
  if (rebooted && known->replaced)
    TRY(check_predecessor_stopped(txn, *known));
  if (rebooted && jobs_on(txn, known->id).size() > kProvenAtOnce) {
    // In parts, and before it is up again: meanwhile nothing new may start there.
    const Ref<Node> before = txn.node(known->id);
    set_lost(txn, *before);
    if (!prove_stopped(txn, *before, Proof::kInParts))
      return Answer{.node = before->id};
    known = txn.tables().node(node.meta.name);
  }
  if (known)
    keep_known(node, *known, ask.certificate);
  else
    TRY(make_known(txn, node, ask.certificate));
  const std::string otherwise = settle_terms(txn, node, known, ask);
  if (known)
    add_counted_of(node, known->added_counted);
  Node facts = ask.facts;
  if (facts.reason.empty())
    facts.reason = otherwise;
  take_word(node, facts, known, txn.now());
  take_shortages(node, known, txn.now());
  const Ref<Node> made = put_up(txn, std::move(node), known, rebooted);
  if (rebooted)
    (void)prove_stopped(txn, *made, Proof::kAtOnce);
  ask_anew(txn, made->id);
  return hear_out(txn, *made, ask);
}

Result<void> node_away(Txn& txn, const NodeAway& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  if (!known || known->link != NodeLink::kUp || known->seen_at != ask.seen_at)
    return {};
  Node node = *known;
  node.link = NodeLink::kAway;
  node.seen_at = txn.now();
  txn.event(Kind::kNode, node.meta, "NodeAway", node.meta.name);
  txn.put(std::move(node));
  return {};
}

Result<void> node_lost(Txn& txn, const NodeLost& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  if (!known || known->link == NodeLink::kLost)
    return {};
  set_lost(txn, *known);
  // Silence proves nothing: what runs there goes on, and whose failure it was is known with the proof.
  if (mutant(Mutant::kSkipFence))
    for (JobId id : jobs_on(txn, ask.node)) member_gone(txn, id, ask.node, "NodeDown");
  return {};
}
Result<void> give_up_member(Txn& txn, const GiveUpMember& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  const Ref<Job> job = txn.job(ask.job);
  if (known && known->link == NodeLink::kLost && job && job->allocation && job->attempt == ask.attempt &&
      lives_on(txn.inner(), *job, ask.node))
    member_lost(txn, ask.job, ask.node, format("NodeDown {}", known->meta.name));
  return {};
}

Result<void> node_fenced(Txn& txn, const NodeFenced& ask) {
  TRY(need_admin(txn, "speak for nodes"));
  const Ref<Node> known = txn.node(ask.node);
  if (!known || (known->boot_id != ask.boot_id && !mutant(Mutant::kStaleBoot)))
    return {};  // a newer boot has proven as much already
  txn.event(Kind::kNode, known->meta, "NodeFenced", ask.proof);
  set_lost(txn, *known);
  (void)prove_stopped(txn, *known, Proof::kInParts);
  return {};
}

Result<Answer> update_node(Txn& txn, const UpdateNode& ask) {
  TRY(need_admin(txn, "change nodes"));
  const Node* known = txn.tables().node(ask.name);
  if (!known)
    return not_found(format("Invalid node name specified: {}", ask.name));
  TRY(check_weight_is_own(txn.tables(), *known, ask));
  Node node = *known;
  if (ask.drain) {
    // What an administrator drained was perhaps not seen to hang as well: who resumes it sees that now.
    if (!*ask.drain && !node.drain) {
      forgive(txn, node);
      forgive_health(node);
    }
    node.drain = *ask.drain;
    if (!*ask.drain)
      forget_why_drained(node, txn.now());
  }
  without_class(node);
  change_facts(txn, node, ask);
  TRY(change_terms(txn.tables(), node, ask));
  with_class(txn.inner(), node);
  if (ask.revoke)
    revoke_certificate(txn, node, ask.reason.has_value());
  ++node.meta.generation;
  const Ref<Node> made = txn.put(std::move(node));
  if (ask.drain && *ask.drain)
    replace_reserved(txn, made->meta.name);
  if (ask.revoke) {
    txn.event(Kind::kNode, made->meta, "CertificateRevoked", made->meta.name);
    TRY(node_lost(txn, {made->id}));
  }
  return Answer{.node = made->id, .seq = made->meta.seq};
}

Result<void> remove_node(Txn& txn, const RemoveNode& ask) {
  TRY(need_admin(txn, "remove nodes"));
  const Node* known = txn.tables().node(ask.name);
  if (!known)
    return not_found(format("Invalid node name specified: {}", ask.name));
  if (known->link != NodeLink::kLost)
    return conflict(format("{}, or cut it off with `lockstep node revoke {}`", not_lost_yet(txn, *known), ask.name));
  let_return(txn, known->id);
  if (!jobs_on(txn, known->id).empty())
    return conflict(format("node {} still holds jobs that are not proven stopped", ask.name));
  forget_issued(txn, ask.name);
  txn.remove(txn.node(known->id));
  return {};
}

}  // namespace lockstep
