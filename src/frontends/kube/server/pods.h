// Pods at the API: the object and the job that runs it are made in one commit, and ended together.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/kinds/pod_view.h"
#include "frontends/kube/server/request.h"
#include "frontends/kube/server/stream_room.h"

namespace lockstep::kube {

// The command that makes a new pod. refusal: why its job was refused a moment ago; then the object alone waits.
Answered<CommandBody> new_pod(const Request& request, const json::object& tree, const std::string& refusal);
// Whether a pod whose job was refused for this reason is to wait instead of being refused itself.
bool waits_for(const Error& refusal);

// What of a pod's job is to change with its object. sizes: also its cores and memory, for which its node may have no
// room.
enum class Sizes : bool { kStay, kChange };
std::vector<CommandBody> changes_of_job(const Tables& tables, const Object& pod, const json::object& tree,
                                        const json::object& old, Sizes sizes);
// Tells the pod's node that something of it has changed. Should it not hear, it asks within half a minute by itself.
void tell_node(const Request& request, const std::shared_ptr<StreamRoom>& room, const Object& pod);

// What a pod's object shows now: its records, and why its job waits or is over.
struct PodNow {
  PodRecords records;
  std::string why;  // as show_pod takes it
  friend bool operator==(const PodNow&, const PodNow&) = default;
};
// then: what it showed when it was told; null: what it shows now.
PodNow pod_now(const Request& request, const Object& pod, const PodRecords* then = nullptr);
// The tree of a pod's object with that.
void show_records(const Request& request, const Object& object, json::object& tree, const PodRecords* then = nullptr);

// The commands that delete a pod within its grace. seconds: as the client says; nothing: as the pod says.
std::vector<CommandBody> deletion_of_pod(const Tables& tables, const Object& pod, std::optional<std::int64_t> seconds,
                                         RemoveObject::Dependents dependents);

}  // namespace lockstep::kube
