// Pods between their making and their end: a pod that waits for what it names (a node, a volume, a gate) gets its job
// when that is there; how it ended is written into its object before its job is forgotten; what outlives its grace is
// killed.
#include <algorithm>

#include "base/text.h"
#include "frontends/kube/controllers/controllers.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/pod_events.h"
#include "frontends/kube/controllers/pod_work.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/kinds/types.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr WorkloadKind kPreemptor{"pods", "v1", "Pod", "default-scheduler"};
constexpr std::int32_t kKill = 9;
constexpr Duration kResizeAgain = seconds(15);
constexpr Duration kNoNode = seconds(60);  // a pod that names a node which nobody knows is kept for so long
// What a pod without a job may wait for.
constexpr std::string_view kAwaited[] = {"nodes", "persistentvolumeclaims", "persistentvolumes",
                                         "storageclasses.storage.k8s.io", "volumeattributesclasses.storage.k8s.io"};

bool waits_for_work(const Object& pod) { return pod.shows.empty() && pod.ended.empty() && !is_deleting(pod); }

// It was preempted and will not go on.
bool makes_room(const Job& job) {
  return job.eviction && job.eviction->nodes.empty() && job.eviction->mode == PreemptMode::kCancel;
}

std::string preempted_by(const ObjectView& view, const PodRecords& records) {
  const JobId by = records.job->eviction->by;
  const Job* job = view.tables().job(by);
  const bool is_pod = job && job->meta.extra && !job->meta.extra->owners.empty();
  return format("Preempted by {} on node {}",
                is_pod ? "pod " + uid_text(job->meta.extra->owners.front().uid) : format("job {}", by.value),
                records.node ? records.node->meta.name : "");
}

class PodController final : public Reconciler {
 public:
  std::string_view name() const override { return "pods"; }

  void woken_by(const ObjectView& view, const Object& changed, std::vector<ObjectKey>& out) const override {
    if (changed.type == kPods)
      return out.push_back(key_of(changed));
    if (std::ranges::find(kAwaited, changed.type) == std::end(kAwaited))
      return;
    const std::string type(kPods);
    const auto& objects = view.objects();
    for (auto at = objects.lower_bound({type, "", ""}); at != objects.end() && std::get<0>(at->first) == type; ++at)
      if (waits_for_work(*at->second))
        out.push_back(at->first);
  }

  void reconcile(const ObjectView& view, const ObjectKey& key, Instant now, Wishes& out) const override {
    const auto at = view.objects().find(key);
    if (at == view.objects().end())
      return;
    const Object& pod = *at->second;
    const PodRecords records = records_of_pod(view.tables(), pod);
    wish_pod_events(out, view, pod, records, now);
    if (waits_for_work(pod))
      return submit(view, pod, now, out);
    if (!records.job) {
      // Its job was forgotten before this was looked at: what the object keeps of its end is all there is.
      if (!pod.ended.empty() && !pod_has_ended(body_of(pod)))
        keep_end(view, pod, out);
      return;
    }
    if (is_final(records.job->state))
      keep_end(view, pod, out);
    else if (makes_room(*records.job) && !is_deleting(pod))
      // Whoever made it makes another. Its view says for what it went.
      out.add(
          RemoveObject{pod.type, pod.meta.ns, pod.meta.name, pod.meta.seq}, {},
          {PutObject{event_about(view, now, pod, kPreemptor, kNormal, "Preempted", preempted_by(view, records)), 0}});
    else if (is_deleting(pod))
      kill_late(pod, *records.job, now, out);
    else if (records.job->state == JobState::kRunning)
      see_running(view, pod, *records.job, now, out);
  }

 private:
  static void submit(const ObjectView& view, const Object& pod, Instant now, Wishes& out) {
    json::object tree = pod_as_shown(view.tables(), pod);
    if (pod_has_ended(tree))
      return;
    if (const std::string named = text_in(spec_of(tree), "nodeName"); !named.empty() && !view.tables().node(named)) {
      const Instant due = instant_of(view, made_at(tree)) + kNoNode;
      if (due <= now)
        return collect(view, pod, now, out);
      out.look_again(due);
    }
    const json::value before = part(tree, "status");
    const auto work = pod_work(view.tables(), now, std::move(tree), pod.meta.seq);
    if (!work.ok())
      return;
    const Reading read{.records = {{key_of(pod), pod.meta.seq}}};
    if (std::holds_alternative<SubmitJob>(work->body))
      return out.add(work->body, read);
    const Object& waiting = std::get<PutObject>(work->body).object;
    if (!same_json(part(body_of(waiting), "status"), before))
      out.add(work->body, read);
  }

  static WallTime made_at(const json::object& tree) {
    return parse_timestamp(text_in(part(tree, "metadata"), "creationTimestamp")).value_or(WallTime{});
  }

  static void collect(const ObjectView& view, const Object& pod, Instant now, Wishes& out) {
    Object gone = disrupted(pod, time_text(now, view.wall_offset()), "DeletionByPodGC", "PodGC: node no longer exists");
    json::object body = body_of(gone);
    body["status"].as_object()["phase"] = "Failed";
    out.add(PutObject{with_body(gone, body), pod.meta.seq}, {},
            {RemoveObject{pod.type, pod.meta.ns, pod.meta.name, 0}});
  }

  static void see_running(const ObjectView& view, const Object& pod, const Job& job, Instant now, Wishes& out) {
    const json::object body = body_of(pod);
    if (pod_has_ended(body))  // somebody has said so, for good: it is stopped
      out.add(CancelJob{.target = {job.id, {}}}, {.records = {{job.id, job.meta.seq}, {key_of(pod), pod.meta.seq}}});
    else
      resize(view, pod, body, job, now, out);
  }

  // What there was no room for when it was asked for is asked for again, unless its node never had it.
  static void resize(const ObjectView& view, const Object& pod, const json::object& body, const Job& job, Instant now,
                     Wishes& out) {
    const PodSize wanted = size_of_pod(body);
    const Resources& has = job.spec->groups.front().per_task;
    if (wanted == size_of(has))
      return;
    const PodRecords records = records_of_pod(view.tables(), pod);
    if (!records.node || wanted.cores + wanted.shared_milli / 1000 > records.node->cores ||
        wanted.memory_mb > records.node->memory_mb)
      return;
    out.add(UpdateJob{.target = {job.id, {}},
                      .cores_per_task = wanted.cores,
                      .shared_milli_per_task = wanted.shared_milli,
                      .memory_mb_per_task = wanted.memory_mb},
            {.records = {{key_of(pod), pod.meta.seq}}});
    out.look_again(now + kResizeAgain);
  }

  static void keep_end(const ObjectView& view, const Object& pod, Wishes& out) {
    json::object body = body_of(pod);
    if (pod_has_ended(body) && !list_in(part(body, "status"), "containerStatuses").empty())
      return;
    json::object tree = pod_as_shown(view.tables(), pod);
    if (!pod_has_ended(tree))
      return;
    if (same_json(part(body, "status"), part(tree, "status")))
      return;
    body["status"] = part(tree, "status");
    if (const json::value& node = part(spec_of(tree), "nodeName"); node.is_string())
      body["spec"].as_object()["nodeName"] = node;
    wish_changed(out, with_body(pod, body), pod.meta.seq);
  }

  // A deletion may give less grace than the pod's own, which is the job's.
  static void kill_late(const Object& pod, const Job& job, Instant now, Wishes& out) {
    if (job.state != JobState::kCompleting)
      return;
    const auto grace = integer_in(part(body_of(pod), "metadata"), "deletionGracePeriodSeconds");
    if (!grace || *grace <= 0 || seconds(*grace) >= job.spec->kill_wait)
      return;
    const Instant due = pod.meta.extra->deleting + seconds(*grace);
    if (now < due) {
      out.look_again(due);
      return;
    }
    out.add(CancelJob{.target = {job.id, {}}, .signal = kKill}, {.records = {{job.id, job.meta.seq}}});
    wish_changed(out, with_grace(pod, 0), pod.meta.seq);  // so that it is killed once
  }
};

}  // namespace

std::shared_ptr<const Reconciler> pod_controller() { return std::make_shared<PodController>(); }

}  // namespace lockstep::kube
