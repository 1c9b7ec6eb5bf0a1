#include "frontends/kube/controllers/pod_events.h"

#include "base/text.h"
#include "frontends/kube/controllers/new_object.h"
#include "frontends/kube/controllers/workload.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_wait.h"
#include "frontends/kube/kinds/sysctls.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/store/stored_object.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr Duration kRecent = minutes(10);
constexpr Duration kPatience = seconds(2);  // a job that waits for no longer is about to start
constexpr WorkloadKind kScheduler{"pods", "v1", "Pod", "default-scheduler"};
constexpr WorkloadKind kNode{"pods", "v1", "Pod", "kubelet"};

class PodEvents {
 public:
  PodEvents(Wishes& out, const ObjectView& view, const Object& pod, const PodRecords& records, Instant now)
      : out_(out), view_(view), pod_(pod), records_(records), now_(now) {}

  void all() {
    if (!records_.job)
      return tell_unplaced();
    if (records_.job->state == JobState::kPending)
      return tell_waiting();
    if (records_.node && recent(records_.job->started))
      tell(kScheduler, kNormal, "Scheduled",
           format("Successfully assigned {}/{} to {}", pod_.meta.ns.get(), pod_.meta.name, records_.node->meta.name));
    // Its node tries again: an address comes back when others have ended.
    if (records_.task && records_.task->state == TaskState::kWaiting && !records_.task->reason.get().empty())
      tell(kNode, kWarning, "FailedCreatePodSandBox",
           format("Failed to create pod sandbox: {}", records_.task->reason.get()));
    if (records_.task)
      for (const ContainerStatus& one : records_.task->containers.get()) tell_container(one);
  }

 private:
  bool recent(Instant at) const { return at && now_ - at < kRecent; }

  // One that was told so often already is not told again.
  void tell(const WorkloadKind& who, const char* type, const char* reason, const std::string& message,
            std::int64_t times = 1) {
    if (!takes_new_objects(view_, pod_.meta.ns))
      return;
    const auto known = known_event(view_, pod_, reason, message);
    if (known && (times <= 1 || integer_in(body_of(*known), "count").value_or(1) >= times))
      return;
    Object event = event_about(view_, now_, pod_, who, type, reason, message);
    if (times > 1) {
      json::object body = body_of(event);
      body["count"] = times;
      event = with_body(event, body);
    }
    Reading read{.records = {{key_of(event), known ? known->meta.seq : 0}}};
    out_.add(PutObject{std::move(event), 0}, std::move(read));
  }

  void tell_unplaced() {
    const json::object body = body_of(pod_);
    const json::value& status = part(body, "status");
    if (const std::string words = text_in(status, "message"); words.starts_with(kRejected))
      tell(kNode, kWarning, text_in(status, "reason").c_str(), words.substr(std::string_view(kRejected).size()));
    for (const json::value& one : list_in(part(body, "status"), "conditions"))
      if (text_in(one, "type") == "PodScheduled" && text_in(one, "reason") == "Unschedulable")
        tell(kScheduler, kWarning, "FailedScheduling", text_in(one, "message"));
  }

  // Why is the planner's to say: the pod's condition shows it as `lockstep explain` does.
  void tell_waiting() {
    const Instant due = records_.job->submitted + kPatience;
    if (now_ < due)
      out_.look_again(due);
    else if (recent(due))
      tell(kScheduler, kWarning, "FailedScheduling", waiting_for_nodes(view_.tables(), *records_.job));
  }

  void tell_container(const ContainerStatus& one) {
    const std::string name = one.name,
                      where = format("{}_{}({})", pod_.meta.name, pod_.meta.ns.get(), uid_text(pod_.meta.uid));
    const bool lived = one.state != ContainerState::kWaiting || one.restarts > 0;
    const std::int64_t lives = std::int64_t{one.restarts} + (one.state == ContainerState::kWaiting ? 0 : 1);
    if (lived && recent(one.started)) {
      const json::object body = body_of(pod_);
      const json::value* asked = container_named(body, name);
      tell(kNode, kNormal, "Pulled",
           format("Container image \"{}\" already present on machine", asked ? text_in(*asked, "image") : ""), lives);
      tell(kNode, kNormal, "Created", format("Created container: {}", name), lives);
      tell(kNode, kNormal, "Started", format("Started container {}", name), lives);
    }
    if (one.state == ContainerState::kWaiting) {
      if (one.reason == "CrashLoopBackOff")
        tell(kNode, kWarning, "BackOff", format("Back-off restarting failed container {} in pod {}", name, where),
             lives);
      else if (one.reason == "ErrImagePull" || one.reason == "ImagePullBackOff")
        tell(kNode, kWarning, one.reason == "ErrImagePull" ? "Failed" : "BackOff", format("{}: {}", name, one.message));
      else if (!one.reason.empty() && one.reason != "ContainerCreating" && one.reason != "PodInitializing")
        tell(kNode, kWarning, "Failed", format("Error: {}", one.message.empty() ? one.reason : one.message));
    }
    for (const std::string* reason : {&one.reason, &one.last_reason})
      if (reason->ends_with("ProbeFailed")) {
        tell(kNode, kWarning, "Unhealthy", format("{} of container {}", *reason, name),
             std::max<std::int64_t>(1, one.restarts));
        tell(kNode, kNormal, "Killing", format("Container {} failed its probe, will be restarted", name),
             std::max<std::int64_t>(1, one.restarts));
        break;
      }
    if (is_deleting(pod_) && one.state == ContainerState::kRunning)
      tell(kNode, kNormal, "Killing", format("Stopping container {}", name));
  }

  Wishes& out_;
  const ObjectView& view_;
  const Object& pod_;
  const PodRecords& records_;
  const Instant now_;
};

}  // namespace

void wish_pod_events(Wishes& out, const ObjectView& view, const Object& pod, const PodRecords& records, Instant now) {
  PodEvents(out, view, pod, records, now).all();
}

}  // namespace lockstep::kube
