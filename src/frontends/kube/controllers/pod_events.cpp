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
#include "wire/container_notes.h"

namespace lockstep::kube {

namespace {

constexpr Duration kRecent = minutes(10);
constexpr Duration kPatience = seconds(2);  // a job that waits for no longer is about to start
constexpr std::string_view kNotMounted = "MountVolume.SetUp failed", kNoSandbox = "Failed to create pod sandbox";
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
           format("Successfully assigned {}/{} to {}", pod_.meta.ns.get(), pod_.meta.name, records_.node->meta.name),
           order_of(What::kScheduled));
    // Its node tries again: an address comes back when others have ended.
    if (records_.task && records_.task->state == TaskState::kWaiting && !records_.task->reason.get().empty())
      tell_no_sandbox(records_.task->reason.get());
    if (records_.task && !records_.task->containers->empty()) {
      body_ = body_of(pod_);
      for (const ContainerStatus& one : records_.task->containers.get()) {
        tell_container(one);
        ++container_;
      }
    }
    tell_cancelled();
  }

 private:
  // In the order in which they happen to one container.
  enum class What : std::uint16_t {
    kScheduled,
    kNoSandbox,
    kNotMounted,
    kPulling,
    kPulled,
    kCreated,
    kStarted,
    kUnhealthy,
    kFailedProbe,
    kImageFailed,
    kImageError,
    kImageBackOff,
    kImageBackOffError,
    kBackOff,
    kFailed,
    kKilling,
  };
  static constexpr unsigned kOrdersOfContainer = 16, kLast = 0xffff;
  EventOrder order_of(What what) const {
    return EventOrder(static_cast<std::uint16_t>(1 + container_ * kOrdersOfContainer + static_cast<unsigned>(what)));
  }

  bool recent(Instant at) const { return at && now_ - at < kRecent; }

  // One that was told so often already is not told again.
  void tell(const WorkloadKind& who, const char* type, const char* reason, const std::string& message,
            EventOrder order = {}, std::int64_t times = 1) {
    if (!takes_new_objects(view_, pod_.meta.ns))
      return;
    const auto known = known_event(view_, pod_, reason, message, order);
    if (known && (times <= 1 || integer_in(body_of(*known), "count").value_or(1) >= times))
      return;
    Object event = event_about(view_, now_, pod_, who, type, reason, message, order);
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
    // Of one that another scheduler is to place, that one tells.
    const std::string scheduler = text_in(part(body, "spec"), "schedulerName");
    if (!scheduler.empty() && scheduler != kScheduler.component && text_in(part(body, "spec"), "nodeName").empty())
      return;
    for (const json::value& one : list_in(part(body, "status"), "conditions"))
      if (text_in(one, "type") == "PodScheduled" && text_in(one, "reason") == "Unschedulable")
        tell(kScheduler, kWarning, "FailedScheduling", text_in(one, "message"));
  }

  void tell_no_sandbox(const std::string& why) {
    if (const std::size_t mount = why.find(kNotMounted); mount != why.npos)
      tell(kNode, kWarning, "FailedMount", why.substr(mount), order_of(What::kNotMounted));
    else
      tell(kNode, kWarning, "FailedCreatePodSandBox", format("Failed to create pod sandbox: {}", why),
           order_of(What::kNoSandbox));
  }

  // Why is the planner's to say: the pod's condition shows it as `lockstep explain` does.
  void tell_waiting() {
    const Instant due = records_.job->submitted + kPatience;
    if (now_ < due)
      out_.look_again(due);
    else if (recent(due))
      tell(kScheduler, kWarning, "FailedScheduling", waiting_for_nodes(view_.tables(), *records_.job));
  }

  // Who owns the pod reads here that somebody else has ended it.
  void tell_cancelled() {
    const Job& job = *records_.job;
    const std::string words = who_cancelled(view_.tables(), job);
    if (words.empty() || is_deleting(pod_) || !recent(job.ended))
      return;
    const json::object body = body_of(pod_);
    if (pod_has_ended(body) && text_in(part(body, "status"), "reason") != "Cancelled")
      return;
    tell(job.started ? kNode : kScheduler, kWarning, "Cancelled", words, EventOrder(kLast));
  }

  std::string image_of(const std::string& container) const {
    const json::value* asked = container_named(body_, container);
    return asked ? text_in(*asked, "image") : "";
  }

  void tell_container(const ContainerStatus& one) {
    const std::string name = one.name;
    const bool lived = one.state != ContainerState::kWaiting || one.restarts > 0;
    const std::int64_t lives = std::int64_t{one.restarts} + (one.state == ContainerState::kWaiting ? 0 : 1);
    const ContainerNotes notes = notes_of(one);
    if (one.reason == kFetchingImage || (notes.fetch_time > Duration{} && recent(one.started)))
      tell(kNode, kNormal, "Pulling", pulling(name), order_of(What::kPulling));
    if (lived && recent(one.started))
      tell_beginning(name, lives, notes.fetch_time);
    if (one.state == ContainerState::kWaiting)
      tell_waiting_container(one, lives);
    if (!notes.replaced.empty() && recent(one.started))
      tell(kNode, kWarning, "ImageLinksReplaced",
           format(
               "Container image \"{}\" has symbolic links where folders must be: empty folders have taken the place of "
               "{}",
               image_of(name), notes.replaced),
           order_of(What::kCreated));
    for (const FailedProbe& probe : notes.failed_probes) tell_probe(name, probe);
    const bool stops = is_deleting(pod_) || records_.job->state == JobState::kCompleting;
    if (stops && one.state == ContainerState::kRunning)
      tell(kNode, kNormal, "Killing", format("Stopping container {}", name), order_of(What::kKilling));
  }

  std::string pulling(const std::string& container) const {
    return format("Pulling image \"{}\"", image_of(container));
  }

  // Once for each life. Of one that is over the node does not say any more whence its image came.
  void tell_beginning(const std::string& name, std::int64_t lives, Duration fetch_time) {
    const std::string created = format("Created container: {}", name);
    if (const auto known = known_event(view_, pod_, "Created", created, order_of(What::kCreated));
        known && integer_in(body_of(*known), "count").value_or(1) >= lives)
      return;
    const bool pulled = fetch_time > Duration{} ||
                        (lives == 1 && known_event(view_, pod_, "Pulling", pulling(name), order_of(What::kPulling)));
    tell(kNode, kNormal, "Pulled",
         !pulled                   ? format("Container image \"{}\" already present on machine", image_of(name))
         : fetch_time > Duration{} ? format("Successfully pulled image \"{}\" in {}.{:03}s", image_of(name),
                                            fetch_time.seconds(), fetch_time.millis() % 1000)
                                   : format("Successfully pulled image \"{}\"", image_of(name)),
         order_of(What::kPulled), pulled ? 1 : lives);
    tell(kNode, kNormal, "Created", created, order_of(What::kCreated), lives);
    tell(kNode, kNormal, "Started", format("Started container {}", name), order_of(What::kStarted), lives);
  }

  void tell_waiting_container(const ContainerStatus& one, std::int64_t lives) {
    if (one.reason == "CrashLoopBackOff") {
      tell(kNode, kWarning, "BackOff",
           format("Back-off restarting failed container {} in pod {}_{}({})", one.name, pod_.meta.name,
                  pod_.meta.ns.get(), uid_text(pod_.meta.uid)),
           order_of(What::kBackOff), lives);
    } else if (one.reason == "ErrImagePull" || one.reason == "ImagePullBackOff") {
      const std::string image = image_of(one.name);
      tell(kNode, kNormal, "Pulling", pulling(one.name), order_of(What::kPulling));
      // The node begins with the image's name, too.
      const std::string same = format("failed to pull image \"{}\": ", image);
      const std::string why = one.message.substr(one.message.starts_with(same) ? same.size() : 0);
      tell(kNode, kWarning, "Failed", format("Failed to pull image \"{}\": {}", image, why),
           order_of(What::kImageFailed));
      tell(kNode, kWarning, "Failed", "Error: ErrImagePull", order_of(What::kImageError));
      if (one.reason == "ErrImagePull")
        return;
      tell(kNode, kNormal, "BackOff", format("Back-off pulling image \"{}\"", image), order_of(What::kImageBackOff));
      tell(kNode, kWarning, "Failed", "Error: ImagePullBackOff", order_of(What::kImageBackOffError));
    } else if (one.message.starts_with(kNotMounted)) {  // the same of each container
      tell(kNode, kWarning, "FailedMount", one.message, EventOrder(1 + static_cast<unsigned>(What::kNotMounted)));
    } else if (one.message.starts_with(kNoSandbox)) {  // likewise
      tell(kNode, kWarning, "FailedCreatePodSandBox", one.message,
           EventOrder(1 + static_cast<unsigned>(What::kNoSandbox)));
    } else if (!one.reason.empty() && one.reason != "ContainerCreating" && one.reason != "PodInitializing" &&
               one.reason != kFetchingImage) {
      tell(kNode, kWarning, "Failed", format("Error: {}", one.message.empty() ? one.reason : one.message),
           order_of(What::kFailed));
    }
  }

  static ContainerNotes notes_of(const ContainerStatus& one) {
    auto notes = one.state == ContainerState::kRunning ? decode_container_notes(one.message) : ContainerNotes();
    return notes.ok() ? std::move(*notes) : ContainerNotes();
  }

  void tell_probe(const std::string& container, const FailedProbe& probe) {
    const char* const kind = probe.what == Probe::What::kStartup     ? "Startup"
                             : probe.what == Probe::What::kReadiness ? "Readiness"
                                                                     : "Liveness";
    const std::string words = format("{} probe failed: {}", kind, probe.output);
    // Of words that it did not use before nobody knows how often they were said.
    const bool is_new = !known_event(view_, pod_, "Unhealthy", words, order_of(What::kUnhealthy));
    tell(kNode, kWarning, "Unhealthy", words, order_of(What::kUnhealthy), is_new ? 1 : std::int64_t{probe.times});
    if (probe.ends > 0)
      tell(kNode, kNormal, "Killing",
           format("Container {} failed {} probe, will be restarted", container,
                  probe.what == Probe::What::kStartup ? "startup" : "liveness"),
           order_of(What::kFailedProbe), std::int64_t{probe.ends});
  }

  Wishes& out_;
  const ObjectView& view_;
  const Object& pod_;
  const PodRecords& records_;
  const Instant now_;
  json::object body_;       // of the pod, for its containers
  unsigned container_ = 0;  // that is told of, by its place
};

}  // namespace

void wish_pod_events(Wishes& out, const ObjectView& view, const Object& pod, const PodRecords& records, Instant now) {
  PodEvents(out, view, pod, records, now).all();
}

}  // namespace lockstep::kube
