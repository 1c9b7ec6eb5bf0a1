// Pods at the API: the object and the job that runs it are made in one commit, and ended together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontends/kube/server/request.h"

namespace lockstep::kube {

// The command that makes a new pod. refusal: why its job was refused a moment ago; then the object alone waits.
Answered<CommandBody> new_pod(const Request& request, const json::object& tree, const std::string& refusal);
// Whether a pod whose job was refused for this reason is to wait instead of being refused itself.
bool waits_for(const Error& refusal);

// The tree of a pod's object with what the records say. waits: filled in with the planner's reason.
void show_records(const Request& request, const Object& object, json::object& tree);

// The commands that delete a pod within its grace. seconds: as the client says; nothing: as the pod says.
std::vector<CommandBody> deletion_of_pod(const Tables& tables, const Object& pod, std::optional<std::int64_t> seconds,
                                         RemoveObject::Dependents dependents);

}  // namespace lockstep::kube
