#include "frontends/kube/server/pods.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/pod_wait.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"
#include "model/object_share.h"
#include "views/reasons.h"

namespace lockstep::kube {

namespace {

constexpr std::int32_t kKill = 9;
constexpr std::int64_t kGraceDefault = 30, kGraceMost = INT32_MAX;

// Why its job waits: which nodes will not do, where one pod is asked for, and in the words of squeue and
// `lockstep explain`, with the start that the planner foresees.
std::string waiting_words(const ReadContext& read, const Job& job, bool alone) {
  const PlanNote* note = read.notes.of(job.id);
  if (!note && job.hold == Hold::kNone)
    return {};
  const Reason why = slurm_reason_parts(job, note);
  std::string out =
      alone ? waiting_for_nodes(read.tables, job) : format("0/{} nodes are available now.", read.tables.nodes.size());
  out += format(" Job {} waits: {}", job.id.value, why.word);
  if (!why.detail.empty())
    out += format(" ({})", why.detail);
  if (note && note->expected_start > read.now)
    out += format(", foreseen to start {}", time_text(note->expected_start, wall_offset_of(read)));
  return out;
}

std::int64_t grace_of(const json::object& tree, std::optional<std::int64_t> asked) {
  const std::int64_t own = integer_in(spec_of(tree), "terminationGracePeriodSeconds").value_or(kGraceDefault);
  const std::int64_t grace = asked.value_or(own);
  return grace < 0 ? 1 : std::min(grace, kGraceMost);
}

}  // namespace

Answered<CommandBody> new_pod(const Request& request, const json::object& tree, const std::string& refusal) {
  const auto read = request.visit->read();
  if (!refusal.empty())
    return pod_without_work(read->tables, read->now, tree, refusal);
  auto work = pod_work(read->tables, read->now, tree);
  if (work.ok())
    return std::move(work->body);
  return Status::invalid({request.kind->group, request.kind->kind}, text_in(part(tree, "metadata"), "name"),
                         {{"FieldValueInvalid", "Invalid value: " + work.error().message, work.error().field}});
}

bool waits_for(const Error& refusal) {
  if (refusal.field.ends_with(kObjectShareField))
    return false;  // there is no room for the pod either
  switch (refusal.code) {
    case Errc::kImpossible:
    case Errc::kDenied:
    case Errc::kExhausted:
    case Errc::kInvalid: return true;
    default: return false;
  }
}

std::vector<CommandBody> changes_of_job(const Tables& tables, const Object& pod, const json::object& tree,
                                        const json::object& old, Sizes sizes) {
  std::vector<CommandBody> out;
  const PodRecords records = records_of_pod(tables, pod);
  if (!records.job || is_final(records.job->state) || records.job->state == JobState::kCompleting)
    return out;
  UpdateJob change{.target = {records.job->id, {}}};
  const auto deadline = integer_in(spec_of(tree), "activeDeadlineSeconds");
  if (deadline && deadline != integer_in(spec_of(old), "activeDeadlineSeconds"))
    change.time_limit = seconds(std::clamp<std::int64_t>(*deadline, 1, INT32_MAX));
  const Resources& has = records.job->spec->groups.front().per_task;
  if (const PodSize wanted = size_of_pod(tree); sizes == Sizes::kChange && wanted != size_of(has)) {
    change.cores_per_task = wanted.cores;
    change.shared_milli_per_task = wanted.shared_milli;
    change.memory_mb_per_task = wanted.memory_mb;
  }
  // Others' affinities and spreads go by them.
  if (Labels labels = labels_of_pod(tree); labels != records.job->spec->labels.get())
    change.labels = std::move(labels);
  if (change.time_limit || change.cores_per_task || change.labels)
    out.emplace_back(std::move(change));
  return out;
}

namespace {

// A question that has no answer: its stream ends when the node has heard it.
class Look final : public Conversation {
 public:
  Look(std::shared_ptr<StreamRoom> room, std::unique_ptr<Stream> node)
      : room_(std::move(room)), node_(std::move(node)) {}
  void begin() {
    node_->on_data([](std::string_view) {});
    node_->on_close([this] { room_->end(this); });
    node_->pause(false);
  }

 private:
  const std::shared_ptr<StreamRoom> room_;
  const std::unique_ptr<Stream> node_;
};

}  // namespace

void tell_node(const Request& request, const std::shared_ptr<StreamRoom>& room, const Object& pod) {
  const PodRecords records = records_of_pod(request.visit->read()->tables, pod);
  if (!records.task || records.task->state != TaskState::kRunning || room->size() >= kConversationsMax)
    return;
  ContainerAsk ask;
  ask.what = ContainerAsk::What::kLook;
  ask.job = records.job->id;
  request.visit->reach(ask, [room](Result<std::unique_ptr<Stream>> node) {
    if (!node.ok())
      return;
    const auto look = std::make_shared<Look>(room, std::move(*node));
    room->keep(look);
    look->begin();
  });
}

PodNow pod_now(const Request& request, const Object& pod, const PodRecords* then) {
  const auto read = request.visit->read();
  PodNow out{then ? *then : records_of_pod(read->tables, pod), {}};
  if (out.records.job && out.records.job->state == JobState::kPending)
    out.why = waiting_words(*read, *out.records.job, !request.target.name.empty());
  else if (out.records.job)
    out.why = who_cancelled(read->tables, *out.records.job);
  return out;
}

void show_records(const Request& request, const Object& object, json::object& tree, const PodRecords* then) {
  const PodNow now = pod_now(request, object, then);
  show_pod(tree, object, now.records, now.why, wall_offset_of(*request.visit->read()));
}

std::vector<CommandBody> deletion_of_pod(const Tables& tables, const Object& pod, std::optional<std::int64_t> seconds,
                                         RemoveObject::Dependents dependents) {
  std::vector<CommandBody> out;
  json::object tree = pod_as_shown(tables, pod);
  const PodRecords records = records_of_pod(tables, pod);
  const bool runs = records.job && !is_final(records.job->state);
  const bool placed = runs && records.job->state != JobState::kPending;
  const bool deleting = pod.meta.extra && pod.meta.extra->deleting;
  const std::int64_t grace = placed ? grace_of(tree, seconds) : 0;
  if (deleting && integer_in(part(tree, "metadata"), "deletionGracePeriodSeconds").value_or(INT64_MAX) <= grace)
    return out;  // it never gets longer
  // At once: the object goes now, and its job as soon as it can be stopped. Else it stays until that is proven; so does
  // one that somebody keeps, who may want to see how it ends.
  Object marked = with_grace(pod, grace);
  if (grace == 0 && !(pod.meta.extra && !pod.meta.extra->finalizers.empty()))
    marked.shows.clear();
  out.emplace_back(PutObject{std::move(marked), pod.meta.seq});
  if (!deleting)
    out.emplace_back(RemoveObject{pod.type, pod.meta.ns, pod.meta.name, 0, dependents});
  if (!runs)
    return out;
  if (grace == 0 && (records.job->state == JobState::kRunning || records.job->state == JobState::kCompleting))
    out.emplace_back(CancelJob{.target = {records.job->id, {}}, .signal = kKill});
  if (records.job->state != JobState::kCompleting)
    out.emplace_back(CancelJob{.target = {records.job->id, {}}});
  return out;
}

}  // namespace lockstep::kube
