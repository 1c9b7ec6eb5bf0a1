#include "core/txn.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/preemption.h"
#include "model/bounds.h"
#include "model/job.h"
#include "model/table_of.h"
#include "rules/awaited.h"

namespace lockstep {

namespace {

template <class Map, class K>
typename Map::mapped_type find_ref(const Map& map, const K& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : it->second;
}

// What an ended element adds to its array's worst exit code: a failure without one of its own counts as 1.
std::uint32_t code_of(const Job& job) {
  if (job.state == JobState::kCompleted)
    return 0;
  return std::max(1u, static_cast<std::uint32_t>(job.exit.code));
}

}  // namespace

Txn::Txn(ClusterState::Inner& inner, const Caller& caller, Instant now, CommandPart part)
    : inner_(inner), caller_(caller), now_(now), part_(part), seq_before_(inner.tables.seq), last_before_(inner.last) {
  CHECK(now >= inner.last, format("cluster time went back from {} to {}", inner.last.us, now.us));
  inner_.last = now;
}

Ref<Job> Txn::job(JobId id) const {
  const Ref<Job>* found = inner_.tables.jobs.get(id);
  return found ? *found : nullptr;
}
Ref<Node> Txn::node(NodeId id) const { return find_ref(inner_.tables.nodes, id); }
Ref<Step> Txn::step(JobId job, StepNo number) const { return find_ref(inner_.tables.steps, StepKey{job, number}); }
Ref<Task> Txn::task(const TaskKey& key) const { return find_ref(inner_.tables.tasks, key); }

template <class T>
void Txn::note_shown(const T& record) {
  if (inner_.shown_by.empty())
    return;
  Shown key{.kind = kKindOf<T>};
  if constexpr (std::is_same_v<T, Job>)
    key.job = record.id;
  else if constexpr (std::is_same_v<T, Task>)
    key = {.kind = Kind::kTask, .job = record.job, .group = record.group, .index = record.index};
  else if constexpr (std::is_same_v<T, Node>)
    key.node = record.id;
  else
    return;
  for (auto at = inner_.shown_by.lower_bound({key, Uid()}); at != inner_.shown_by.end() && at->first == key; ++at)
    shown_.insert(at->second);
}

// Who owns what has changed, by both versions.
void Txn::note_owners() {
  const auto note = [&](const Record& record, Seq seq) {
    const bool named = std::visit([](const auto& ref) { return ref && ref->meta.extra; }, record);
    if (!named)
      return;
    for (const OwnerRef& owner : meta_of(record).extra->owners)
      if (inner_.objects_by_uid.contains(owner.uid))
        inner_.dependents_changed[owner.uid] = seq;
  };
  for (std::size_t i = 0; i < undo_.size(); ++i) {
    note(undo_[i].before, out_.changes[i].seq);
    note(out_.changes[i].record, out_.changes[i].seq);
  }
  for (const Change& change : out_.changes)
    if (change.removed && std::holds_alternative<Ref<Object>>(change.record))
      inner_.dependents_changed.erase(meta_of(change.record).uid);
}

template <class T>
Ref<T> Txn::write(T record, const T* before) {
  const Seq seq = inner_.tables.seq + 1;
  record.meta.seq = seq;
  if (before) {
    record.meta.uid = before->meta.uid;
    record.meta.created = before->meta.created;
  } else {
    record.meta.uid = Uid(seq);
    record.meta.created = now_;
  }
  Undo undo;
  undo.existed = before != nullptr;
  Ref<T> old = before ? record_like(inner_.tables, *before) : nullptr;
  undo.before = old;
  undo_.push_back(std::move(undo));
  auto ref = std::make_shared<const T>(std::move(record));
  out_.changes.push_back({seq, ref, false});
  inner_.tables.apply(out_.changes.back());
  inner_.index(old.get(), ref.get());
  note_shown(*ref);
  bool heavier = true;
  if constexpr (std::is_same_v<T, Job> || std::is_same_v<T, Step>)
    heavier = !old || may_be_heavier(*old, *ref);
  if (heavier)
    weigh(out_.changes.back().record);
  return ref;
}

void Txn::weigh(const Record& record) {
  const Weight weight = inner_.scale.weigh(record, kRecordBytesMax);
  out_.bytes += inner_.scale.fresh_bytes();
  const Weight& spec = inner_.scale.spec();
  const bool all_fits = weight.bytes <= kRecordBytesMax;
  if ((all_fits && spec.bytes <= kSpecBytesMax) || too_large_ || mutant(Mutant::kOversizeAccepted))
    return;
  const Weight& what = all_fits ? spec : weight;
  too_large_ = Error{Errc::kExhausted,
                     format("{} would take {} bytes in the log, most of them its {}; {} are allowed: ask for less, or "
                            "put it into files",
                            all_fits ? "what is asked for" : "the record", what.bytes, what.heaviest,
                            all_fits ? kSpecBytesMax : kRecordBytesMax),
                     what.heaviest};
}

bool Txn::fits_log(const Job& job) const {
  return inner_.scale.weigh(std::make_shared<const Job>(job), kRecordBytesMax).bytes <= kRecordBytesMax ||
         mutant(Mutant::kOversizeAccepted);
}

template <class T>
Ref<T> Txn::put(T r) {
  const Ref<T> before = record_like(tables(), r);
  return write(std::move(r), before.get());
}
#define KIND(type, name, word, table, count, seen) template Ref<type> Txn::put(type);
#include "model/kinds.def"

Ref<Node> Txn::put(Node r) {
  const Ref<Node> before = node(r.id);
  if (before && node_expected(*before) && !node_expected(r))
    dark_.push_back(r.id);
  return write(std::move(r), before.get());
}
Ref<Job> Txn::put(Job r) {
  const Ref<Job> before = job(r.id);
  if (before && before->state != r.state) {
    // An array's own record waits until its elements have ended: it alone goes from pending to any final state.
    CHECK(legal_transition(before->state, r.state) || (r.array && is_final(r.state)),
          format("job {} goes from state {} to {}", r.id.value, static_cast<int>(before->state),
                 static_cast<int>(r.state)));
  }
  CHECK((r.allocation != nullptr) == holds_allocation(r.state));
  if (r.array)
    if (const auto draft = drafts_.find(r.id); draft != drafts_.end()) {
      r.array = std::make_shared<const ArrayState>(std::move(draft->second));
      drafts_.erase(draft);
    }
  if (r.array_job)
    count_element(before.get(), r);
  if (before && before->state != r.state)
    moved_.push_back(r.id);
  // A promise is made to the job as it stands.
  if (r.promise &&
      ((r.state != JobState::kPending && !is_moving(r)) || r.hold != Hold::kNone || (before && before->spec != r.spec)))
    r.promise = nullptr;
  if (before && before->promise && before->promise->held && !(r.promise && r.promise->held))
    released_.push_back(r.id);
  if (before && inner_.closed_for.contains(r.id))
    note_closers(*before, r);
  return write(std::move(r), before.get());
}

void Txn::count_element(const Job* before, const Job& after) {
  const bool held = before && holds_allocation(before->state), holds = holds_allocation(after.state);
  const bool was_open = before && !is_final(before->state), open = !is_final(after.state);
  if (held == holds && was_open == open && before)
    return;
  ArrayState& array = edit_array(after.array_job);
  array.running += holds;
  array.running -= held;
  array.unfinished += open;
  array.unfinished -= was_open;
  if (!open && (was_open || !before))
    array.worst_code = std::max(array.worst_code, code_of(after));
}

void Txn::remove(const Record& record) {
  std::visit(
      [&](const auto& ref) {
        using T = std::remove_cvref_t<decltype(*ref)>;
        Ref<T> old = record_like(inner_.tables, *ref);
        CHECK(old, "removes a record that is not there");
        if constexpr (std::is_same_v<T, Job>)
          CHECK(is_final(old->state), "forgets a job that has not ended");
        undo_.push_back({old, true});
        out_.changes.push_back({inner_.tables.seq + 1, old, true});
        inner_.tables.apply(out_.changes.back());
        inner_.index(old.get(), static_cast<const T*>(nullptr));
        note_shown(*old);
      },
      record);
  // A snapshot knows no removals: the cluster record, written last, keeps the highest seq ever used in it.
  edit_cluster();
}

void Txn::act(NodeId node, const Job& job, ActionBody body) {
  out_.actions.push_back({node, job.id, job.attempt, std::move(body)});
}

void Txn::event(const Job& job, std::string what, std::string message) {
  const Job* known = inner_.tables.job(job.id);
  out_.events.push_back(
      {now_, Kind::kJob, known ? known->meta.uid : job.meta.uid, job.id, std::move(what), std::move(message)});
}

void Txn::event(Kind kind, const Meta& about, std::string what, std::string message) {
  out_.events.push_back({now_, kind, about.uid, {}, std::move(what), std::move(message)});
}

Cluster& Txn::edit_cluster() {
  if (!cluster_)
    cluster_ = inner_.tables.cluster ? std::make_unique<Cluster>(*inner_.tables.cluster) : std::make_unique<Cluster>();
  return *cluster_;
}

JobId Txn::new_job_id() {
  Cluster& cluster = edit_cluster();
  cluster.next_job = std::max(cluster.next_job, settings().first_job);
  return JobId(cluster.next_job++);
}
NodeId Txn::new_node_id() { return NodeId(edit_cluster().next_node++); }
UserId Txn::new_user_id() { return UserId(edit_cluster().next_user++); }

const ArrayState& Txn::array(JobId id) const {
  const auto it = drafts_.find(id);
  if (it != drafts_.end())
    return it->second;
  const Job* job = tables().job(id);
  CHECK(job && job->array, format("job {} is no array", id.value));
  return *job->array;
}

ArrayState& Txn::edit_array(JobId id) {
  edited_.insert(id);
  const auto it = drafts_.find(id);
  return it != drafts_.end() ? it->second : drafts_.emplace(id, array(id)).first->second;
}

Ref<JobSpec> Txn::share(const Ref<JobSpec>& spec) {
  constexpr std::size_t kKept = 32;
  auto& accepted = inner_.accepted;
  for (auto& known : accepted)
    if (*known.spec == *spec) {
      known.ground = inner_.ground;
      return known.spec;
    }
  Ref<JobSpec> kept = spec;
  if (!accepted.empty()) {
    auto parts_shared = std::make_shared<JobSpec>(*spec);
    share_parts(*parts_shared, *accepted.front().spec);
    kept = std::move(parts_shared);
  }
  accepted.push_front({kept, inner_.ground});
  if (accepted.size() > kKept)
    accepted.pop_back();
  return kept;
}

std::vector<JobId> Txn::take_moved() { return std::exchange(moved_, {}); }

std::vector<JobId> Txn::take_released() { return std::exchange(released_, {}); }

std::vector<Closer> Txn::take_closers() { return std::exchange(closers_, {}); }

// A report of one node is no reason to look at the others.
void Txn::note_closers(const Job& before, const Job& after) {
  if (before.state != after.state || before.allocation != after.allocation || before.eviction != after.eviction) {
    closers_.push_back({.job = after.id, .everywhere = true});
    return;
  }
  for (std::size_t i = 0; i < after.members.size(); ++i)
    if (before.members[i] != after.members[i])
      closers_.push_back({.job = after.id, .node = after.allocation->grants[i].node});
}

std::vector<ObjectKey> Txn::take_shown() {
  std::vector<ObjectKey> out;
  for (const Uid uid : std::exchange(shown_, {}))
    if (const auto known = inner_.objects_by_uid.find(uid); known != inner_.objects_by_uid.end())
      out.push_back(known->second);
  return out;
}

std::vector<NodeId> Txn::take_dark_nodes() { return std::exchange(dark_, {}); }

std::vector<JobId> Txn::take_edited_arrays() {
  std::vector<JobId> out(edited_.begin(), edited_.end());
  edited_.clear();
  return out;
}

void Txn::note_epoch() {
  epoch_.emplace();
  epoch_->began = now_;
  epoch_->first_id = std::max(edit_cluster().next_job, settings().first_job);
}

void Txn::keep_notes() {
  Epoch& epoch = inner_.epoch;
  if (epoch_)
    epoch = std::move(*epoch_);
  for (const NodeId node : heard_)
    if (epoch.heard.insert(node).second)
      epoch.heard_lately.push_back(node);
  for (const auto& [id, noted] : noted_) {
    Epoch::Attempts& known = epoch.attempts.try_emplace(id, noted).first->second;
    known.seen = std::max(known.seen, noted.seen);
  }
}

Outcome Txn::commit(Answer answer) {
  CHECK(drafts_.empty() && edited_.empty() && moved_.empty() && released_.empty() && dark_.empty() &&
            closers_.empty() && shown_.empty(),
        "consequences are left over");
  CHECK(learned_.empty(), "nobody has learned");
  if (cluster_) {
    cluster_->clock = now_;
    const std::uint64_t next_job = cluster_->next_job;
    if (mutant(Mutant::kReuseJobId) && inner_.tables.cluster)
      cluster_->next_job = inner_.tables.jobs.empty() ? 1 : inner_.tables.jobs.last_key().value;
    const Ref<Cluster> written = write(*cluster_, inner_.tables.cluster.get());
    if (mutant(Mutant::kReuseJobId)) {
      auto in_memory = std::make_shared<Cluster>(*written);
      in_memory->next_job = next_job;
      inner_.tables.cluster = std::move(in_memory);
    }
  }
  keep_notes();
  note_owners();
  out_.answer = std::move(answer);
  return std::move(out_);
}

void Txn::roll_back() {
  for (std::size_t i = undo_.size(); i-- > 0;) {
    const Change& change = out_.changes[i];
    inner_.tables.seq = change.seq - 1;
    std::visit(
        [&](const auto& ref) {
          using T = std::remove_cvref_t<decltype(*ref)>;
          const Ref<T> before = std::get<Ref<T>>(undo_[i].before);
          const Ref<T> after = change.removed ? nullptr : ref;
          inner_.tables.apply({change.seq, undo_[i].existed ? before : ref, !undo_[i].existed});
          inner_.index(after.get(), before.get());
        },
        change.record);
  }
  inner_.tables.seq = seq_before_;
  inner_.last = last_before_;
  drafts_.clear();
  edited_.clear();
  moved_.clear();
  released_.clear();
  closers_.clear();
  dark_.clear();
  shown_.clear();
}

}  // namespace lockstep
