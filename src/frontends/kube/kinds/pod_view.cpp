#include "frontends/kube/kinds/pod_view.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/mutant.h"
#include "base/text.h"
#include "frontends/kube/kinds/container_view.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/kinds/pod_job.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "model/job.h"

namespace lockstep::kube {

namespace {

constexpr std::string_view kOwnConditions[] = {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady",
                                               "PodScheduled"};
// Of ours, those that are there only while they are true.
constexpr std::string_view kPassing[] = {"PodResizePending", "PodResizeInProgress"};

constexpr const char* kEvictedReason = "Evicted";
constexpr const char* kWritten = "$written";  // in the stored tree: while its records are of this version

// Grows with every change of the job or its task.
Seq version_of(const PodRecords& records) {
  return std::max(records.job ? records.job->meta.seq : 0, records.task ? records.task->meta.seq : 0);
}

// One pod, as it is being shown.
struct Showing {
  json::object& tree;
  const Object& pod;
  const PodRecords& records;
  std::string_view why;
  Duration wall_offset;
  bool as_written = false;  // the status, of what follows from the records

  const Job& job() const { return *records.job; }
  std::string time(Instant at) const { return timestamp_text(WallTime{(at + wall_offset).us}); }
  const json::value& spec() const { return spec_of(tree); }
  const json::value& status() const { return part(tree, "status"); }
};

// --- conditions ---

struct Condition {
  const char* type;
  bool is = false;
  Instant since;
  std::string reason, message;
};

void add_condition(json::array& out, const Showing& of, const Condition& condition) {
  json::object one{{"type", condition.type}, {"status", condition.is ? "True" : "False"}, {"lastProbeTime", nullptr}};
  if (const auto generation = integer_in(part(of.tree, "metadata"), "generation"))
    one["observedGeneration"] = *generation;
  one["lastTransitionTime"] = of.time(condition.since);
  if (!condition.reason.empty())
    one["reason"] = condition.reason;
  if (!condition.message.empty())
    one["message"] = condition.message;
  out.push_back(std::move(one));
}

// Those of others stay, and ours where the records say nothing of them.
void put_conditions(const Showing& of, json::array ours) {
  for (const json::value& one : list_in(of.status(), "conditions")) {
    const std::string type = text_in(one, "type");
    const auto own =
        std::ranges::find_if(ours, [&](const json::value& other) { return text_in(other, "type") == type; });
    if (own != ours.end() && of.as_written)
      *own = one;
    else if (own == ours.end() && std::ranges::find(kPassing, type) == std::end(kPassing))
      ours.push_back(one);
  }
  json::object& status = object_at(of.tree, "status");
  status["conditions"] = std::move(ours);
  if (const auto generation = integer_in(part(of.tree, "metadata"), "generation"))
    status["observedGeneration"] = *generation;
}

bool gates_open(const Showing& of) {
  return std::ranges::all_of(list_in(of.spec(), "readinessGates"), [&](const json::value& gate) {
    const std::string type = text_in(gate, "conditionType");
    return std::ranges::any_of(list_in(of.status(), "conditions"), [&](const json::value& one) {
      return text_in(one, "type") == type && text_in(one, "status") == "True";
    });
  });
}

// --- while it waits ---

void show_waiting(const Showing& of) {
  if (of.records.node)  // others make room there
    object_at(of.tree, "status")["nominatedNodeName"] = of.records.node->meta.name;
  if (of.why.empty())
    return;
  json::array conditions;
  add_condition(conditions, of, {"PodScheduled", false, of.job().submitted, "Unschedulable", std::string(of.why)});
  put_conditions(of, std::move(conditions));
}

// --- since it has a node ---

// How it has ended or is about to; else how far it is.
JobState end_of(const Job& job) { return job.state == JobState::kCompleting ? job.ending : job.state; }

std::string_view phase_of(const Showing& of, const ContainerViews& views) {
  if (const JobState state = end_of(of.job()); is_final(state)) {
    const bool well = state == JobState::kCompleted ||
                      (state != JobState::kTimeout && state != JobState::kNodeFail && views.all_succeeded());
    if (is_final(of.job().state) || views.all_ended())
      return well ? "Succeeded" : "Failed";
  }
  if (mutant(Mutant::kStatusAhead))
    return "Running";
  return views.phase();
}

struct EndWords {
  std::string reason, message;
};

constexpr std::string_view kEvicted = "Evicted: ";
constexpr const char* kCancelled = "Cancelled";

bool is_being_deleted(const Object& pod) { return pod.meta.extra && pod.meta.extra->deleting; }

// Why it ended otherwise than by its containers.
EndWords end_words(const Showing& of) {
  const Job& job = of.job();
  const Task* const task = of.records.task.get();
  if (task && task->reason.get().starts_with(kEvicted))
    return {"Evicted", task->reason.get().substr(kEvicted.size())};
  switch (end_of(job)) {
    case JobState::kCancelled:
      // Who deletes a pod knows it; who ended it otherwise has said how.
      if (const std::string said = text_in(of.status(), "reason");
          is_being_deleted(of.pod) || (said != kCancelled && (!said.empty() || pod_has_ended(of.tree))))
        return {};
      return {kCancelled, of.why.empty() ? format("Job {} was cancelled", job.id.value) : std::string(of.why)};
    case JobState::kTimeout:
    case JobState::kDeadline:
      return {"DeadlineExceeded", "Pod was active on the node longer than the specified deadline"};
    case JobState::kNodeFail: return {"NodeLost", format("Its node is lost: {}", job.end_reason.get())};
    case JobState::kPreempted: return {"Preempted", "It made room for work of higher priority"};
    case JobState::kBootFail: return {"NodeLost", format("Its node did not start it: {}", job.end_reason.get())};
    default: return {};
  }
}

void put_end_words(json::object& status, const EndWords& words) {
  if (words.reason.empty())
    return;
  status["reason"] = words.reason;
  status["message"] = words.message;
}

// Its job has ended and had no node: there is nothing to be said of containers.
void show_never_placed(const Showing& of) {
  json::array conditions;
  add_condition(conditions, of,
                {"PodScheduled", false, of.job().submitted, "Unschedulable", "its job has ended before it had a node"});
  const EndWords words = end_words(of);
  put_conditions(of, std::move(conditions));
  json::object& status = object_at(of.tree, "status");
  put_end_words(status, words);
  if (!pod_has_ended(of.tree))
    status["phase"] = "Failed";
}

void show_place(const Showing& of) {
  json::object& status = object_at(of.tree, "status");
  if (of.records.node) {
    object_at(of.tree, "spec")["nodeName"] = of.records.node->meta.name;
    const std::string address = of.records.node->address.substr(0, of.records.node->address.rfind(':'));
    if (!address.empty()) {
      status["hostIP"] = address;
      status["hostIPs"] = json::array{json::object{{"ip", address}}};
    }
    std::string own;
    if (flag_in(of.spec(), "hostNetwork"))
      own = of.records.task && of.records.task->state != TaskState::kWaiting ? address : "";
    else if (of.records.task)
      own = of.records.task->address.get();
    if (!own.empty()) {
      status["podIP"] = own;
      status["podIPs"] = json::array{json::object{{"ip", own}}};
    }
  }
  if (of.job().started)
    status["startTime"] = of.time(of.job().started);
}

// What it asks for since it runs: its job has not been granted it yet, or its containers do not have it yet.
// Source: kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources.
void add_resize(json::array& out, const Showing& of, const ContainerViews& views) {
  if (!of.job().spec || of.job().spec->groups.empty())
    return;
  const Resources& granted = of.job().spec->groups.front().per_task;
  const PodSize wanted = size_of_pod(of.tree);
  if (wanted != size_of(granted)) {
    const Node* node = of.records.node.get();
    const bool never =
        node && (wanted.cores + wanted.shared_milli / 1000 > node->cores || wanted.memory_mb > node->memory_mb);
    add_condition(out, of,
                  {"PodResizePending", true, of.job().started, never ? "Infeasible" : "Deferred",
                   never ? format("Node didn't have enough capacity: {} cores and {} MB are asked for",
                                  wanted.cores + wanted.shared_milli / 1000, wanted.memory_mb)
                         : std::string("Node didn't have enough resource")});
  } else if (!views.all_resized()) {
    add_condition(out, of, {"PodResizeInProgress", true, of.job().started, {}, {}});
  }
}

void show_running(const Showing& of) {
  show_place(of);
  ContainerViews views(of.tree, of.job(), of.records.task.get(), of.wall_offset);
  const std::string written = text_in(of.status(), "phase");
  const bool keeps = !written.empty() && (of.as_written || pod_has_ended(of.tree));
  const std::string_view phase = keeps ? std::string_view(written) : phase_of(of, views);
  const bool over = phase == "Succeeded" || phase == "Failed";
  const Instant began = of.job().started;
  json::array conditions;
  const bool has_sandbox = of.records.task && of.records.task->state == TaskState::kRunning;
  add_condition(
      conditions, of,
      {"PodReadyToStartContainers", has_sandbox && !over, has_sandbox ? of.records.task->started : began, {}, {}});
  const bool initialized = views.initialized() || phase == "Succeeded";
  add_condition(conditions, of,
                {"Initialized", initialized, std::max(began, views.initialized_at()),
                 initialized ? (phase == "Succeeded" ? "PodCompleted" : "") : "ContainersNotInitialized",
                 initialized ? "" : "containers with incomplete status: " + views.incomplete_words()});
  const Task* const task = of.records.task.get();
  const Instant changed = task && task->ready_at ? task->ready_at : views.changed_at();
  Condition ready{"ContainersReady", !over && views.all_ready(), std::max(began, changed), {}, {}};
  if (over) {
    ready.reason = phase == "Succeeded" ? "PodCompleted" : "PodFailed";
  } else if (!ready.is) {
    ready.reason = "ContainersNotReady";
    ready.message = views.unready_words();
  }
  Condition pod_ready = ready;
  pod_ready.type = "Ready";
  if (pod_ready.is && !gates_open(of)) {
    pod_ready.is = false;
    pod_ready.reason = "ReadinessGatesNotReady";
    pod_ready.message = "a condition that its readiness gates name is not \"True\"";
  }
  add_condition(conditions, of, pod_ready);
  add_condition(conditions, of, ready);
  add_condition(conditions, of, {"PodScheduled", true, began, {}, {}});
  if (end_of(of.job()) == JobState::kPreempted)
    add_condition(conditions, of,
                  {"DisruptionTarget", true, of.job().ended ? of.job().ended : began, "PreemptionByScheduler",
                   "It made room for work of higher priority"});
  if (of.records.task && of.records.task->reason.get().starts_with(kEvicted))
    add_condition(conditions, of,
                  {"DisruptionTarget", true, of.job().ended ? of.job().ended : began, "TerminationByKubelet",
                   of.records.task->reason.get().substr(kEvicted.size())});
  if (!over)
    add_resize(conditions, of, views);
  put_conditions(of, std::move(conditions));
  const EndWords words = over ? end_words(of) : EndWords{};
  json::object& status = object_at(of.tree, "status");
  status["phase"] = phase;
  put_end_words(status, words);
  if (!words.reason.empty())
    views.nothing_starts_any_more();
  if (json::array init = views.statuses(ContainerViews::Which::kInit); !init.empty())
    status["initContainerStatuses"] = std::move(init);
  status["containerStatuses"] = views.statuses(ContainerViews::Which::kMain);
  if (json::array added = views.statuses(ContainerViews::Which::kAdded); !added.empty())
    status["ephemeralContainerStatuses"] = std::move(added);
}

// --- its job is forgotten ---

void show_forgotten(const Showing& of, const EndedWork& end) {
  if (pod_has_ended(of.tree))
    return;  // the object says it all
  json::object& status = object_at(of.tree, "status");
  status["phase"] = end.state == JobState::kCompleted ? "Succeeded" : "Failed";
  if (end.started)
    status["startTime"] = of.time(end.started);
  if (!end.ran_on.empty())
    object_at(of.tree, "spec")["nodeName"] = end.ran_on.get();
}

// A deletion's time is when the grace that it gives is over.
void show_deletion(const Showing& of) {
  if (!is_being_deleted(of.pod))
    return;
  json::object& metadata = object_at(of.tree, "metadata");
  const auto grace = integer_in(part(of.tree, "metadata"), "deletionGracePeriodSeconds");
  if (grace)
    metadata["deletionTimestamp"] =
        of.time(of.pod.meta.extra->deleting + seconds(std::clamp<std::int64_t>(*grace, 0, INT32_MAX)));
}

}  // namespace

const EndedWork* ended_job_of(const Object& pod) {
  for (const EndedWork& one : pod.ended)
    if (one.what.kind == Kind::kJob)
      return &one;
  return nullptr;
}

std::string who_cancelled(const Tables& tables, const Job& job) {
  if (end_of(job) != JobState::kCancelled)
    return {};
  const User* const by = tables.user(job.cancelled_by);
  return format("Job {} was cancelled{}", job.id.value, by ? " by " + by->meta.name : "");
}

void show_pod(json::object& tree, const Object& pod, const PodRecords& records, std::string_view why,
              Duration wall_offset) {
  Showing of{tree, pod, records, why, wall_offset};
  if (const auto version = integer_in(tree, kWritten)) {
    of.as_written = static_cast<Seq>(*version) == version_of(records);
    tree.erase(kWritten);
  }
  json::object& status = object_at(tree, "status");
  if (text_in(status, "phase").empty())
    status["phase"] = "Pending";
  if (text_in(status, "qosClass").empty())
    status["qosClass"] = qos_class(tree);
  show_deletion(of);
  if (!records.job) {
    if (const EndedWork* end = ended_job_of(pod))
      show_forgotten(of, *end);
    return;
  }
  if (records.job->state == JobState::kPending)
    show_waiting(of);
  else if (is_final(records.job->state) && pod_has_ended(tree) &&
           !of.status().as_object().contains("containerStatuses") && text_in(of.status(), "reason") != kEvictedReason)
    return;  // somebody else has said how it ended; of one that its node sent away the records know the rest
  else if (is_final(records.job->state) && records.job->state != JobState::kCompleted && !records.job->started)
    show_never_placed(of);
  else
    show_running(of);
}

void note_written_status(json::object& tree, const json::object& old, const PodRecords& records) {
  if (!records.job || records.job->state == JobState::kPending)
    return;
  const json::value &now = part(tree, "status"), &was = part(old, "status");
  bool same = text_in(now, "phase") == text_in(was, "phase");
  for (const std::string_view type : kOwnConditions) {
    const auto said = [&](const json::value& status) {
      for (const json::value& one : list_in(status, "conditions"))
        if (text_in(one, "type") == type)
          return text_in(one, "status") + " " + text_in(one, "reason") + " " + text_in(one, "message");
      return std::string();
    };
    same = same && said(now) == said(was);
  }
  if (!same)
    tree[kWritten] = version_of(records);
}

bool pod_has_ended(const json::object& tree) {
  const std::string phase = text_in(part(tree, "status"), "phase");
  return phase == "Succeeded" || phase == "Failed";
}

}  // namespace lockstep::kube
