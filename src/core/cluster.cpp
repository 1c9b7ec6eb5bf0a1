#include "core/cluster.h"

#include "base/text.h"
#include "core/accounting.h"
#include "core/arrays.h"
#include "core/attempts.h"
#include "core/bounds.h"
#include "core/confirm.h"
#include "core/dependencies.h"
#include "core/directory.h"
#include "core/health.h"
#include "core/jobs.h"
#include "core/node_classes.h"
#include "core/nodes.h"
#include "core/objects.h"
#include "core/older_log.h"
#include "core/plan.h"
#include "core/preemption.h"
#include "core/reservations.h"
#include "core/steps.h"
#include "core/tasks.h"
#include "core/timers.h"
#include "core/tokens.h"
#include "core/topology.h"
#include "model/ids.h"
#include "model/job.h"
#include "model/node.h"

namespace lockstep {

namespace {

Result<Answer> done(Result<void> result) {
  TRY(std::move(result));
  return Answer{};
}

Result<void> need_controller(const Txn& txn) { return need_admin(txn, "speak for the controller"); }

struct Visitor {
  Txn& txn;
  Result<Answer> operator()(const SubmitJob& c) const { return submit_job(txn, c); }
  Result<Answer> operator()(const CancelJob& c) const { return done(cancel_job(txn, c)); }
  Result<Answer> operator()(const HoldJob& c) const { return done(hold_job(txn, c)); }
  Result<Answer> operator()(const ReleaseJob& c) const { return done(release_job(txn, c)); }
  Result<Answer> operator()(const RequeueJob& c) const { return done(requeue_job(txn, c)); }
  Result<Answer> operator()(const SuspendJob& c) const { return done(suspend_job(txn, c)); }
  Result<Answer> operator()(const ResumeJob& c) const { return done(resume_job(txn, c)); }
  Result<Answer> operator()(const MarkCheckpoint& c) const { return done(mark_checkpoint(txn, c)); }
  Result<Answer> operator()(const UpdateJob& c) const { return update_job(txn, c); }
  Result<Answer> operator()(const EndJob& c) const {
    see_return(txn);
    return done(end_job(txn, c));
  }
  Result<Answer> operator()(const CreateStep& c) const { return create_step(txn, txn.caller(), c); }
  Result<Answer> operator()(const SignalStep& c) const { return done(signal_step(txn, txn.caller(), c)); }
  Result<Answer> operator()(const SetTaskCount& c) const { return done(set_task_count(txn, txn.caller(), c)); }
  Result<Answer> operator()(const PutUser& c) const { return put_user(txn, c); }
  Result<Answer> operator()(const PutAccount& c) const { return put_account(txn, c); }
  Result<Answer> operator()(const RemoveAccount& c) const { return done(remove_account(txn, c)); }
  Result<Answer> operator()(const PutAssociation& c) const { return put_association(txn, c); }
  Result<Answer> operator()(const RemoveAssociation& c) const { return done(remove_association(txn, c)); }
  Result<Answer> operator()(const PutQos& c) const { return put_qos(txn, c); }
  Result<Answer> operator()(const RemoveQos& c) const { return done(remove_qos(txn, c)); }
  Result<Answer> operator()(const PutLicence& c) const { return put_licence(txn, c); }
  Result<Answer> operator()(const RemoveLicence& c) const { return done(remove_licence(txn, c)); }
  Result<Answer> operator()(const PutReservation& c) const { return put_reservation(txn, c); }
  Result<Answer> operator()(const RemoveReservation& c) const { return done(remove_reservation(txn, c)); }
  Result<Answer> operator()(const PutPolicy& c) const { return put_policy(txn, c); }
  Result<Answer> operator()(const PutTopology& c) const { return put_topology(txn, c); }
  Result<Answer> operator()(const ResetUsage& c) const { return done(reset_usage(txn, c)); }
  Result<Answer> operator()(const PutNodeClass& c) const { return put_node_class(txn, c); }
  Result<Answer> operator()(const RemoveNodeClass& c) const { return done(remove_node_class(txn, c)); }
  Result<Answer> operator()(const PutHealthCheck& c) const { return put_health_check(txn, c); }
  Result<Answer> operator()(const RemoveHealthCheck& c) const { return done(remove_health_check(txn, c)); }
  Result<Answer> operator()(const RunHealthCheck& c) const {
    TRY(need_controller(txn));
    return run_health_check(txn, c);
  }
  Result<Answer> operator()(const PutPartition& c) const { return put_partition(txn, c); }
  Result<Answer> operator()(const RemovePartition& c) const { return done(remove_partition(txn, c)); }
  Result<Answer> operator()(const PutObject& c) const { return put_object(txn, c); }
  Result<Answer> operator()(const RemoveObject& c) const { return done(remove_object(txn, c)); }
  Result<Answer> operator()(const DisownJob& c) const { return done(disown_job(txn, c)); }
  Result<Answer> operator()(const PutToken& c) const { return put_token(txn, c); }
  Result<Answer> operator()(const RenewCertificate& c) const { return renew_certificate(txn, c); }
  Result<Answer> operator()(const RedeemToken& c) const { return redeem_token(txn, c); }
  Result<Answer> operator()(const UpdateNode& c) const { return update_node(txn, c); }
  Result<Answer> operator()(const RemoveNode& c) const { return done(remove_node(txn, c)); }
  Result<Answer> operator()(const NodeHello& c) const {
    see_return(txn);
    return node_hello(txn, c);
  }
  Result<Answer> operator()(const NodeAway& c) const { return done(node_away(txn, c)); }
  Result<Answer> operator()(const NodeLost& c) const { return done(node_lost(txn, c)); }
  Result<Answer> operator()(const GiveUpMember& c) const { return done(give_up_member(txn, c)); }
  Result<Answer> operator()(const NodeFenced& c) const { return done(node_fenced(txn, c)); }
  Result<Answer> operator()(const AgentReport& c) const {
    TRY(need_controller(txn));
    return done(agent_report(txn, c));
  }
  Result<Answer> operator()(const ApplyPlan& c) const {
    TRY(need_controller(txn));
    return apply_plan(txn, c);
  }
  Result<Answer> operator()(const Tick&) const {
    TRY(need_controller(txn));
    if (!see_return(txn))  // else the timers are others as soon as that is written
      tick(txn);
    return Answer{};
  }
  Result<Answer> operator()(const SetWallOffset& c) const {
    TRY(need_controller(txn));
    set_wall_offset(txn, c.offset);
    return Answer{};
  }
  Result<Answer> operator()(const StartEpoch& c) const { return start_epoch(txn, c); }
  Result<Answer> operator()(const LearnAttempts& c) const {
    TRY(need_controller(txn));
    (void)learn_attempts(txn, c.attempts);
    return Answer{};
  }
};

template <class... Kinds>
bool is_any_of(const CommandBody& body) {
  return (std::holds_alternative<Kinds>(body) || ...);
}

// What tells of the world, or ends work, is taken however large the records become that it changes: refused, it would
// come again and again. It adds to them at most the places of a step, whose number is bounded.
bool refusable(const CommandBody& body) {
  return !is_any_of<AgentReport, NodeLost, NodeAway, NodeFenced, GiveUpMember, CancelJob, EndJob, ApplyPlan, Tick,
                    StartEpoch>(body);
}

// What front ends put together. The rest is too much for a part of a command, or tells of the world.
bool goes_together(const CommandBody& body) {
  return is_any_of<SubmitJob, CancelJob, HoldJob, ReleaseJob, UpdateJob, SetTaskCount, PutUser, PutAccount,
                   RemoveAccount, PutAssociation, RemoveAssociation, PutQos, RemoveQos, PutLicence, RemoveLicence,
                   PutReservation, RemoveReservation, PutPolicy, PutTopology, PutNodeClass, RemoveNodeClass,
                   PutHealthCheck, RemoveHealthCheck, PutPartition, RemovePartition, UpdateNode, PutObject,
                   RemoveObject, DisownJob>(body);
}

// The refusal of one of several bodies names which: "also[2].limits".
Error at(std::size_t index, Error error) {
  const std::string place = index == 0 ? "body" : format("also[{}]", index - 1);
  error.field = error.field.empty() ? place : place + "." + error.field;
  return error;
}

// Each body is checked beside what those before it have written.
Result<Answer> perform_one(Txn& txn, const CommandBody& body) {
  if (!goes_together(body))
    return invalid("this is done by itself, not together with others");
  if (txn.exhausted())
    return invalid("these changes are too many to be made together: make fewer at once");
  TRY(check_bounds(txn.tables(), body));
  Answer answer = TRY(std::visit(Visitor{txn}, body));
  if (txn.is_cut())
    return invalid("this is too much to be done together with others: do it by itself");
  if (txn.too_large())
    return *txn.too_large();
  return answer;
}

Result<Answer> perform_together(Txn& txn, const Command& command) {
  if (command.also.size() >= kTogetherMax)
    return invalid(format("at most {} changes are made together", kTogetherMax), "also");
  Answer first;
  for (std::size_t i = 0; i <= command.also.size(); ++i) {
    auto answer = perform_one(txn, i == 0 ? command.body : command.also[i - 1]);
    if (!answer.ok())
      return at(i, std::move(answer).error());
    if (i == 0)
      first = std::move(answer).value();
    else
      first.also.push_back(std::move(answer).value());
  }
  return first;
}

// Those that wait are judged by what ended.
void learn(Txn& txn) {
  for (const Txn::Learned& l : txn.take_learned()) {
    const auto waits = [&](JobId id) {
      const Ref<Job> job = txn.job(id);
      return job && job->state == JobState::kPending;
    };
    for (const JobId id : txn.turns().learn(*l.spec, l.limit, l.ran, waits)) {
      Job job = *txn.job(id);
      if (txn.turns().place_again(job, planned_limit(txn, *job.spec)))
        txn.put(std::move(job));
    }
  }
}

// Draws the consequences of what the command did: for jobs that wait for others, and for arrays. goes_on: with what
// earlier commands left, too. Only Ticks do, so that a batch of small commands stays small.
void settle(Txn& txn, bool goes_on) {
  for (;;) {
    learn(txn);
    const auto moved = txn.take_moved();
    for (JobId id : moved) wake_dependents(txn, id);
    const auto arrays = txn.take_edited_arrays();
    for (JobId id : arrays) settle_array(txn, id);
    const auto dark = txn.take_dark_nodes();
    for (NodeId node : dark) drop_holds_on(txn, node);
    const auto released = txn.take_released();
    for (JobId id : released) pardon_victims(txn, id);
    const auto closers = txn.take_closers();
    for (const Closer& closer : closers) see_confirmed(txn, closer);
    const auto shown = txn.take_shown();
    for (const ObjectKey& key : shown) renew_object(txn, key);
    if (goes_on && !txn.chores().empty() && !txn.tired()) {
      do_chores(txn);
      continue;
    }
    if (moved.empty() && arrays.empty() && dark.empty() && released.empty() && closers.empty() && shown.empty())
      return;
  }
}

}  // namespace

ClusterState::ClusterState(CoreSettings settings) : inner_(std::make_unique<Inner>()) {
  CHECK(settings.unkillable_after.us > 0, "its timer would go round");
  inner_->settings = settings;
  inner_->objects_taken.begin(settings.object_shares);
}
ClusterState::~ClusterState() = default;
ClusterState::ClusterState(ClusterState&&) noexcept = default;
ClusterState& ClusterState::operator=(ClusterState&&) noexcept = default;

namespace {

// Controllers before this one wrote the state of a step's part elsewhere. A part that ran is the safe guess: a node
// that knows nothing of it says that it has ended.
Change with_members(const Change& change) {
  const auto* step = std::get_if<Ref<Step>>(&change.record);
  if (!step || change.removed || (*step)->members.size() == (*step)->places.size())
    return change;
  Step whole = **step;
  whole.members.assign(whole.places.size(),
                       whole.state == StepState::kEnded ? MemberState::kStopped : MemberState::kRunning);
  return {change.seq, std::make_shared<const Step>(std::move(whole)), false};
}

}  // namespace

void ClusterState::restore(std::span<const Change> changes) {
  for (const Change& change : changes) inner_->tables.apply(with_members(change));
  if (inner_->tables.cluster)
    inner_->last = inner_->tables.cluster->clock;
  inner_->dependents_floor = inner_->tables.seq;
  inner_->rebuild();
}

void ClusterState::teach(std::span<const PastRun> runs) {
  for (const PastRun& run : runs) inner_->turns.teach(run);
}

void ClusterState::inherit(const ClusterState& before) {
  inner_->turns.inherit(before.inner_->turns);
  Epoch& epoch = inner_->epoch = before.inner_->epoch;
  for (const NodeId node : epoch.heard_lately) epoch.heard.erase(node);
  epoch.heard_lately.clear();
}

void ClusterState::stored() { inner_->epoch.heard_lately.clear(); }

const Tables& ClusterState::tables() const { return inner_->tables; }
const CoreSettings& ClusterState::settings() const { return inner_->settings; }

const NodeLoad& ClusterState::load(NodeId node) const {
  static const NodeLoad idle;
  const auto it = inner_->loads.find(node);
  return it == inner_->loads.end() ? idle : it->second;
}

Instant ClusterState::next_timer() const {
  if (!inner_->chores.empty() || !inner_->chores.roomier.empty())
    return inner_->last;
  return std::min(inner_->timers.empty() ? kNever : inner_->timers.begin()->at, inner_->minutes_due());
}

Result<Outcome> apply(ClusterState& state, const Command& command, Instant now) {
  const bool alone = command.also.empty();
  if (alone)
    TRY(check_bounds(state.tables(), command.body));
  if (command.part.from == 0 && !command.part.found)
    TRY(check_reading(state.inner(), command.read));
  Txn txn(state.inner(), command.caller, now, command.part);
  const bool goes_on = state.inner().chores.empty() || std::holds_alternative<Tick>(command.body) ||
                       std::holds_alternative<StartEpoch>(command.body);
  auto answer = alone ? std::visit(Visitor{txn}, command.body) : perform_together(txn, command);
  if (!answer.ok()) {
    txn.roll_back();
    return std::move(answer).error();
  }
  settle(txn, goes_on);
  if (txn.too_large() && (!alone || refusable(command.body))) {
    Error why = *txn.too_large();
    txn.roll_back();
    return why;
  }
  return txn.commit(std::move(answer).value());
}

}  // namespace lockstep
