#include "frontends/kube/kinds/container_view.h"

#include <algorithm>

#include "base/text.h"
#include "frontends/kube/kinds/pod_containers.h"
#include "frontends/kube/kinds/pod_fields.h"
#include "frontends/kube/machinery/json_tree.h"
#include "frontends/kube/machinery/timestamps.h"
#include "model/job.h"
#include "model/records.h"
#include "wire/container_notes.h"

namespace lockstep::kube {

namespace {

constexpr const char* kCreating = "ContainerCreating";
constexpr const char* kImageBackOff = "ImagePullBackOff";
constexpr const char* kCrashLoop = "CrashLoopBackOff";

constexpr std::int32_t kSignalBase = 128;

bool restarts_after(const json::object& pod, const json::value& container, ContainerKind kind, const ExitStatus& exit) {
  const std::string own = text_in(container, "restartPolicy"), all = text_in(spec_of(pod), "restartPolicy");
  const std::string& rule = own.empty() ? all : own;
  if (kind == ContainerKind::kInit)
    return rule != "Never" && !exit.ok();
  return rule == "Always" || (rule == "OnFailure" && !exit.ok());
}

std::string place_of_pod(const json::object& pod) {
  const json::value& metadata = part(pod, "metadata");
  return format("{}_{}({})", text_in(metadata, "name"), text_in(metadata, "namespace"), text_in(metadata, "uid"));
}

std::string names(const std::vector<std::string>& all) { return "[" + join(all, " ") + "]"; }

std::string_view word_of_end(const ContainerStatus& told) {
  if (!told.reason.empty())
    return told.reason;
  return told.exit.oom ? "OOMKilled" : told.exit.ok() ? "Completed" : "Error";
}

}  // namespace

std::int32_t exit_code_of(const ExitStatus& exit) { return exit.signal ? kSignalBase + exit.signal : exit.code; }

ContainerViews::ContainerViews(const json::object& pod, const Job& job, const Task* task, Duration wall_offset)
    : pod_(pod), job_(job), task_(task), wall_offset_(wall_offset) {
  const auto add = [&](const json::value& asked, ContainerKind kind) {
    One one{&asked, kind};
    const std::string name = text_in(asked, "name");
    if (task)
      for (const ContainerStatus& told : task->containers.get())
        if (told.name == name)
          one.told = &told;
    one.restarts = kind != ContainerKind::kAdded && (!one.told || restarts_after(pod, asked, kind, one.told->exit));
    all_.push_back(one);
  };
  for (const json::value& asked : containers_in(pod, "initContainers"))
    add(asked, is_sidecar(asked) ? ContainerKind::kSidecar : ContainerKind::kInit);
  for (const json::value& asked : containers_in(pod, "containers")) add(asked, ContainerKind::kMain);
  asked_ = all_.size();
  for (const json::value& asked : containers_in(pod, "ephemeralContainers")) add(asked, ContainerKind::kAdded);
}

std::string ContainerViews::time(Instant at) const { return timestamp_text(WallTime{(at + wall_offset_).us}); }

std::string ContainerViews::id_of(const One& one, std::uint32_t life) const {
  return format("lockstep://{}-{}-{}-{}", job_.id.value, job_.attempt, text_in(*one.asked, "name"), life);
}

bool ContainerViews::ended(const One& one) { return one.told && one.told->state == ContainerState::kEnded; }
bool ContainerViews::failed(const One& one) { return ended(one) && !one.told->exit.ok(); }

json::object ContainerViews::terminated(const One& one, Instant started, Instant ended, std::string_view reason,
                                        std::string_view message) const {
  const std::uint32_t life = one.told->state == ContainerState::kEnded ? one.told->restarts
                             : one.told->restarts > 0                  ? one.told->restarts - 1
                                                                       : 0;
  json::object out{{"exitCode", exit_code_of(one.told->exit)}, {"reason", reason}};
  if (one.told->exit.signal)
    out["signal"] = one.told->exit.signal;
  if (!message.empty())
    out["message"] = message;
  out["startedAt"] = time(started ? started : ended);
  out["finishedAt"] = time(ended);
  out["containerID"] = id_of(one, life);
  return out;
}

json::object ContainerViews::state_of(const One& one) const {
  if (one.told && one.told->state == ContainerState::kRunning)
    return {{"running", {{"startedAt", time(one.told->started)}}}};
  if (ended(one))
    return {
        {"terminated", terminated(one, one.told->started, one.told->ended, word_of_end(*one.told), one.told->message)}};
  if (over_)
    return {{"waiting", json::object()}};
  json::object waiting;
  std::string reason = one.told ? one.told->reason : "", message = one.told ? one.told->message : "";
  if (reason.empty() || reason == kCreating || reason == kFetchingImage)
    reason = initialized() ? kCreating : "PodInitializing";
  if (reason == kImageBackOff)
    message = format("Back-off pulling image \"{}\": ErrImagePull: {}", text_in(*one.asked, "image"), message);
  if (message.empty() && task_)
    message = task_->reason.get();
  else if (reason == kCrashLoop)
    message += format(" pod={}", place_of_pod(pod_));
  waiting["reason"] = reason;
  if (!message.empty())
    waiting["message"] = message;
  return {{"waiting", std::move(waiting)}};
}

// What is asked for, but for what its control group still has of before.
json::object ContainerViews::resources_of(const One& one) const {
  const json::value& asked = part(*one.asked, "resources");
  json::object out = asked.is_object() ? asked.get_object() : json::object();
  const auto put = [&](const char* list, const char* name, std::string amount) {
    json::value& amounts = out[list];
    if (!amounts.is_object())
      amounts.emplace_object();
    const auto has = parse_quantity(amount);
    if (const auto said = quantity_in(amounts, name); !has.ok() || (said && *said == *has))
      return;  // as it was written
    amounts.as_object()[name] = has->text();
  };
  if (one.told->milli_cores > 0)
    put("limits", "cpu", format("{}m", one.told->milli_cores));
  if (one.told->cpu_weight > 0)
    put("requests", "cpu", format("{}m", one.told->cpu_weight));
  if (one.told->memory_bytes > 0)
    put("limits", "memory",
        Quantity(static_cast<std::int64_t>(one.told->memory_bytes), Quantity::Format::kBinary).text());
  return out;
}

bool ContainerViews::all_resized() const {
  return std::ranges::all_of(asked(), [](const One& one) {
    if (!one.told || one.told->state != ContainerState::kRunning || one.kind == ContainerKind::kInit)
      return true;
    const SandboxAmounts wanted = amounts_asked(*one.asked);
    return one.told->milli_cores == wanted.milli_cores && one.told->cpu_weight == wanted.cpu_weight &&
           one.told->memory_bytes == wanted.memory_bytes;
  });
}

json::object ContainerViews::status_of(const One& one) const {
  const std::string image = text_in(*one.asked, "image");
  const ContainerStatus* told = one.told;
  const bool lived = told && (told->state != ContainerState::kWaiting || told->restarts > 0);
  json::object last;
  if (told && told->restarts > 0 && told->state != ContainerState::kEnded) {
    const bool waits = told->state == ContainerState::kWaiting;
    const Instant began = told->last_started ? told->last_started : waits ? told->started : Instant{};
    const Instant over = told->last_ended ? told->last_ended : waits ? told->ended : told->started;
    const std::string_view word = !told->last_reason.empty() ? std::string_view(told->last_reason)
                                  : told->exit.oom           ? "OOMKilled"
                                  : told->exit.ok()          ? "Completed"
                                                             : "Error";
    last["terminated"] = terminated(one, began, over, word, told->last_message);
  }
  const bool running = told && told->state == ContainerState::kRunning;
  json::object out{
      {"name", text_in(*one.asked, "name")},
      {"state", state_of(one)},
      {"lastState", std::move(last)},
      {"ready", one.kind == ContainerKind::kInit ? ended(one) && told->exit.ok() : told && told->ready},
      {"restartCount", told ? std::int64_t{told->restarts} : 0},
      {"image", image},
      {"imageID", told && !told->image_digest.empty()
                      ? image.substr(0, image.rfind(':') > image.rfind('/') ? image.rfind(':') : image.npos) + "@" +
                            told->image_digest
                      : std::string()},
      {"started", running && (told->begun || told->ready)}};
  if (one.kind == ContainerKind::kAdded) {
    for (const char* not_theirs : {"started"}) out.erase(not_theirs);
    out["ready"] = false;
  } else if (running) {
    out["resources"] = resources_of(one);
    out["allocatedResources"] = part(part(*one.asked, "resources"), "requests").is_object()
                                    ? part(part(*one.asked, "resources"), "requests")
                                    : json::value(json::object());
    if (out["allocatedResources"].as_object().empty())
      out.erase("allocatedResources");
  }
  if (running && told->uid)
    out["user"] = {{"linux",
                    {{"uid", *told->uid},
                     {"gid", told->gid.value_or(0)},
                     {"supplementalGroups", json::array(told->groups.begin(), told->groups.end())}}}};
  if (lived)
    out["containerID"] = id_of(one, told->state == ContainerState::kWaiting ? told->restarts - 1 : told->restarts);
  return out;
}

json::array ContainerViews::statuses(Which which) const {
  json::array out;
  for (const One& one : all_)
    if (which == (one.kind == ContainerKind::kAdded  ? Which::kAdded
                  : one.kind == ContainerKind::kMain ? Which::kMain
                                                     : Which::kInit))
      out.push_back(status_of(one));
  return out;
}

bool ContainerViews::initialized() const {
  return std::ranges::all_of(asked(), [](const One& one) {
    if (one.kind == ContainerKind::kMain)
      return true;
    if (one.kind == ContainerKind::kInit)
      return ended(one) && one.told->exit.ok();
    return one.told && (one.told->begun || one.told->ready || one.told->restarts > 0 || ended(one));
  });
}

Instant ContainerViews::initialized_at() const {
  Instant out;
  for (const One& one : asked())
    if (one.kind == ContainerKind::kInit && ended(one))
      out = std::max(out, one.told->ended);
  return out;
}

std::string ContainerViews::incomplete_words() const {
  std::vector<std::string> out;
  for (const One& one : asked())
    if (one.kind == ContainerKind::kInit && !(ended(one) && one.told->exit.ok()))
      out.push_back(text_in(*one.asked, "name"));
  return names(out);
}

bool ContainerViews::all_ready() const {
  return std::ranges::all_of(
      asked(), [](const One& one) { return one.kind == ContainerKind::kInit || (one.told && one.told->ready); });
}

std::string ContainerViews::unready_words() const {
  std::vector<std::string> out;
  for (const One& one : asked())
    if (one.kind != ContainerKind::kInit && !(one.told && one.told->ready))
      out.push_back(text_in(*one.asked, "name"));
  return "containers with unready status: " + names(out);
}

Instant ContainerViews::changed_at() const {
  Instant out;
  for (const One& one : asked())
    if (one.told && one.kind != ContainerKind::kInit)
      out = std::max({out, one.told->started, one.told->ended});
  return out;
}

bool ContainerViews::all_ended() const {
  return std::ranges::all_of(asked(), [](const One& one) {
    return one.kind == ContainerKind::kInit ? !one.told || one.told->state != ContainerState::kRunning : ended(one);
  });
}

bool ContainerViews::all_succeeded() const {
  return std::ranges::all_of(
      asked(), [](const One& one) { return one.kind != ContainerKind::kMain || (ended(one) && one.told->exit.ok()); });
}

// Source: kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle ("Pod phase").
std::string_view ContainerViews::phase() const {
  bool pending = false, gave_up = false, waits = false, runs = false, comes_again = false, fails = false;
  for (const One& one : asked()) {
    const bool running = one.told && one.told->state == ContainerState::kRunning;
    const bool waiting = !one.told || one.told->state == ContainerState::kWaiting;
    if (one.kind == ContainerKind::kInit) {
      gave_up = gave_up || (failed(one) && !one.restarts);
      pending = pending || running || waiting || failed(one);
    } else if (one.kind == ContainerKind::kSidecar) {
      pending = pending || (waiting && !(one.told && one.told->restarts > 0));
      runs = runs || running;
    } else {
      waits = waits || (waiting && !(one.told && one.told->restarts > 0));
      comes_again = comes_again || (waiting && one.told && one.told->restarts > 0) || (ended(one) && one.restarts);
      runs = runs || running;
      fails = fails || failed(one);
    }
  }
  if (gave_up)
    return "Failed";
  if (pending || waits)
    return "Pending";
  if (runs || comes_again)
    return "Running";
  return fails ? "Failed" : "Succeeded";
}

}  // namespace lockstep::kube
