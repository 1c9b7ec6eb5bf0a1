// Front-end objects: stored, compared and set, and deleted: marked first, gone when nothing keeps them. What depends on
// them is the collector's business. Who may touch which object is for the front end that owns their meaning to say.
#include "core/objects.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/text.h"
#include "core/directory.h"
#include "core/jobs.h"
#include "model/bounds.h"
#include "model/job.h"
#include "model/records.h"

namespace lockstep {

namespace {

const MetaExtra& extra_of(const Meta& meta) {
  static const MetaExtra empty;
  return meta.extra ? *meta.extra : empty;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Ref<Object> find_object(const Tables& tables, const ObjectKey& key) {
  const auto it = tables.objects.find(key);
  return it == tables.objects.end() ? nullptr : Ref<Object>(it->second);
}

std::string words_of(const ObjectKey& key) {
  const auto& [type, ns, name] = key;
  return ns.empty() ? format("{} {}", type, name) : format("{} {}/{}", type, ns, name);
}

// Work that it shows and that was made for it: the object stays until it has ended.
bool work_goes_on(const Tables& tables, const Object& object) {
  const auto controlled = [&](const Meta& work) { return controller_of(work) == object.meta.uid; };
  return std::any_of(object.shows.begin(), object.shows.end(), [&](const Shown& shown) {
    if (shown.kind == Kind::kJob) {
      const Job* job = tables.job(shown.job);
      return job && !is_final(job->state) && controlled(job->meta);
    }
    const auto task = tables.tasks.find({shown.job, shown.group, shown.index});
    return shown.kind == Kind::kTask && task != tables.tasks.end() && task->second->state != TaskState::kEnded &&
           controlled(task->second->meta);
  });
}

EndedWork ended_work(const Shown& what, const Job& job) {
  return {.what = what,
          .attempt = job.attempt,
          .state = job.state,
          .started = job.started,
          .ended = job.ended,
          .exit = job.exit,
          .ran_on = job.ran_on};
}

EndedWork ended_work(const Shown& what, const Task& task, SharedText ran_on) {
  return {.what = what,
          .attempt = task.attempt,
          .incarnation = task.incarnation,
          .restarts = task.restarts,
          .state = task.exit == ExitStatus{} ? JobState::kCompleted : JobState::kFailed,
          .started = task.started,
          .ended = task.ended,
          .exit = task.exit,
          .ran_on = std::move(ran_on)};
}

// Where the task's grant is, as long as the job has it.
SharedText node_of(const Tables& tables, const Task& task, const EndedWork* known) {
  const Job* job = tables.job(task.job);
  if (job && job->allocation && task.grant < job->allocation->grants.size())
    if (const Node* node = tables.node(job->allocation->grants[task.grant].node))
      return node->meta.name;
  return known ? known->ran_on : SharedText();
}

// The end of what it shows, as it stands now; what went on again after an end has none.
std::optional<EndedWork> end_of(const Tables& tables, const Shown& shown, const EndedWork* known) {
  if (shown.kind == Kind::kJob)
    if (const Job* job = tables.job(shown.job))
      return is_final(job->state) ? std::optional(ended_work(shown, *job)) : std::nullopt;
  if (shown.kind == Kind::kTask)
    if (const auto task = tables.tasks.find({shown.job, shown.group, shown.index}); task != tables.tasks.end())
      return task->second->state == TaskState::kEnded
                 ? std::optional(ended_work(shown, *task->second, node_of(tables, *task->second, known)))
                 : std::nullopt;
  return known ? std::optional(*known) : std::nullopt;  // forgotten by now
}

void note_ends(const Tables& tables, Object& object) {
  std::vector<EndedWork> ended;
  for (const Shown& shown : object.shows) {
    const auto known =
        std::find_if(object.ended.begin(), object.ended.end(), [&](const EndedWork& e) { return e.what == shown; });
    if (auto end = end_of(tables, shown, known == object.ended.end() ? nullptr : &*known))
      ended.push_back(std::move(*end));
  }
  object.ended = std::move(ended);
}

Result<void> same_seq(const Meta& meta, Seq if_seq) {
  if (if_seq != 0 && meta.seq != if_seq)
    return conflict(format("{} has changed since version {}: read it again", meta.name, if_seq));
  return {};
}

Result<void> check_shows(const Txn& txn, const Object& object) {
  const auto& shown_by = txn.inner().shown_by;
  const auto known = find_object(txn.tables(), {object.type, object.meta.ns, object.meta.name});
  for (const Shown& shown : object.shows) {
    if (shown.kind != Kind::kJob && shown.kind != Kind::kTask && shown.kind != Kind::kNode)
      return invalid("an object shows jobs, tasks and nodes", "shows");
    std::size_t others = 0;
    for (auto at = shown_by.lower_bound({shown, Uid()}); at != shown_by.end() && at->first == shown; ++at)
      others += !known || at->second != known->meta.uid;
    if (others >= kShowsMax)
      return Error{Errc::kExhausted, format("{} objects show that record already, the most there may be", kShowsMax),
                   "shows"};
  }
  return {};
}

// What a deletion has begun nobody takes back, and nobody adds another reason to stay.
Result<void> keep_deletion(Object& object, const Object& before) {
  const MetaExtra& was = extra_of(before.meta);
  if (!was.deleting)
    return {};
  auto extra = std::make_shared<MetaExtra>(extra_of(object.meta));
  for (const std::string& finalizer : extra->finalizers)
    if (!has(was.finalizers, finalizer))
      return conflict(format("{} is being deleted: it takes no finalizer \"{}\"", before.meta.name, finalizer));
  extra->deleting = was.deleting;
  object.meta.extra = std::move(extra);
  return {};
}

// Of a share that keeps the newest alone the oldest go, whatever would keep them.
void make_room(Txn& txn, const Object& newest) {
  constexpr int kGoneMost = 32;  // for one: small ones for a large one
  for (int gone = 0; gone < kGoneMost; ++gone) {
    const auto oldest = txn.inner().objects_taken.oldest_beyond(newest);
    if (!oldest)
      return;
    txn.remove(find_object(txn.tables(), *oldest));
  }
}

}  // namespace

bool may_go(const Tables& tables, const Object& object) {
  return extra_of(object.meta).deleting && extra_of(object.meta).finalizers.empty() &&
         (mutant(Mutant::kGoneBeforeStopped) || !work_goes_on(tables, object));
}

Uid controller_of(const Meta& meta) {
  for (const OwnerRef& owner : extra_of(meta).owners)
    if (owner.controller)
      return owner.uid;
  return {};
}

Result<Answer> put_object(Txn& txn, const PutObject& ask) {
  Object object = ask.object;
  if (object.type.empty() || object.meta.name.empty())
    return invalid("an object needs a type and a name", "name");
  std::sort(object.shows.begin(), object.shows.end());
  object.shows.erase(std::unique(object.shows.begin(), object.shows.end()), object.shows.end());
  const Ref<Object> before = find_object(txn.tables(), {object.type, object.meta.ns, object.meta.name});
  if (!before) {
    if (ask.if_seq != 0)
      return conflict(format("{} {} is gone", object.type, object.meta.name));
    object.meta.generation = 1;
  } else {
    TRY(same_seq(before->meta, ask.if_seq));
    object.meta.generation = before->meta.generation + (object.body != before->body);
    TRY(keep_deletion(object, *before));
  }
  if (extra_of(object.meta).deleting && !(before && extra_of(before->meta).deleting))
    return invalid(format("{} {} is deleted by asking for it, not by saying so", object.type, object.meta.name),
                   "deleting");
  TRY(check_shows(txn, object));
  TRY(txn.inner().objects_taken.check(object, before.get()));
  for (const OwnerRef& owner : extra_of(object.meta).owners)
    if (before && owner.uid == before->meta.uid)
      return invalid(format("{} {} would own itself", object.type, object.meta.name), "owners");
  object.ended = before ? before->ended : std::vector<EndedWork>();
  note_ends(txn.tables(), object);
  const Ref<Object> made = txn.put(std::move(object));
  const Answer answer{.seq = made->meta.seq};
  if (!before)
    make_room(txn, *made);
  if (may_go(txn.tables(), *made))
    txn.remove(made);
  return answer;
}

Result<void> remove_object(Txn& txn, const RemoveObject& ask) {
  const ObjectKey key{ask.type, ask.ns, ask.name};
  const Ref<Object> object = find_object(txn.tables(), key);
  if (!object)
    return not_found(format("there is no {}", words_of(key)));
  TRY(same_seq(object->meta, ask.if_seq));
  if (extra_of(object->meta).deleting)
    return {};
  Object marked = *object;
  auto extra = std::make_shared<MetaExtra>(extra_of(object->meta));
  extra->deleting = std::max(txn.now(), Instant{1});
  using enum RemoveObject::Dependents;
  for (const auto& [how, finalizer] : {std::pair{kForeground, lockstep::kForeground}, {kOrphan, lockstep::kOrphan}})
    if (ask.dependents == how && !has(extra->finalizers, finalizer))
      extra->finalizers.push_back(finalizer);
  marked.meta.extra = std::move(extra);
  if (may_go(txn.tables(), marked))
    txn.remove(object);
  else
    txn.put(std::move(marked));
  return {};
}

Result<void> disown_job(Txn& txn, const DisownJob& ask) {
  TRY(need_admin(txn, "take an owner off a job"));
  const Ref<Job> job = txn.job(ask.job);
  if (!job)
    return not_found(format("there is no job {}", ask.job.value));
  Job without = *job;
  auto extra = std::make_shared<MetaExtra>(extra_of(job->meta));
  if (std::erase_if(extra->owners, [&](const OwnerRef& owner) { return owner.uid == ask.owner; }) == 0)
    return {};
  without.meta.extra = *extra == MetaExtra{} ? nullptr : Ref<MetaExtra>(std::move(extra));
  txn.put(std::move(without));
  return {};
}

void renew_object(Txn& txn, const ObjectKey& key) {
  const Ref<Object> object = find_object(txn.tables(), key);
  if (!object)
    return;
  Object renewed = *object;
  note_ends(txn.tables(), renewed);
  if (may_go(txn.tables(), renewed))
    txn.remove(object);
  else if (object->meta.seq <= txn.seq_before() || renewed.ended != object->ended)
    txn.put(std::move(renewed));
}

Result<void> check_reading(const ClusterState::Inner& inner, const Reading& read) {
  if (mutant(Mutant::kStaleReading))
    return {};
  if (read.records.size() > kReadingsMax)
    return invalid(format("a command names at most {} records that it rests on", kReadingsMax), "read");
  for (const Reading::Record& record : read.records) {
    Seq seq = 0;
    if (const auto* id = std::get_if<JobId>(&record.key)) {
      const Job* job = inner.tables.job(*id);
      seq = job ? job->meta.seq : 0;
    } else if (const auto found = find_object(inner.tables, std::get<ObjectKey>(record.key))) {
      seq = found->meta.seq;
    }
    if (seq != record.seq)
      return conflict("a record that this rests on has changed: read it again");
  }
  if (read.dependents && (!inner.objects_by_uid.contains(read.dependents->owner) ||
                          inner.dependents_at(read.dependents->owner) > read.dependents->since))
    return conflict("what depends on the owner has changed: read it again");
  return {};
}

}  // namespace lockstep
