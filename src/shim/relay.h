// Between a step's tasks and its clients: who gets which bytes, and from when on they may be forgotten.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "shim/step_client.h"
#include "shim/step_task.h"

namespace lockstep {

using StepTasks = std::vector<std::unique_ptr<StepTask>>;
using StepClients = std::vector<std::unique_ptr<StepClient>>;

// {"have":{"0":[out,err],…}}: what an attaching client already has. False if it is not that, or more than was written.
bool apply_attach(StepClient& client, const StepTasks& tasks, std::string_view json);

// One frame of a client, except kAttach and kSignal. False: not understood, or of a rank that is not here, or about
// bytes that were never written: drop the client.
bool apply_frame(const StepTasks& tasks, StepClient& client, const Frame& frame);

// Fills the client's queue up to a bound with what it lacks; true when the bound left something out.
bool pump(const StepTasks& tasks, StepClient& client);

// Forgets output that no client needs any more. Onlookers alone make nothing forgotten: whose step it is may come
// again.
void trim_outputs(const StepTasks& tasks, const StepClients& clients);

// Everything the step had to say has been sent to this client.
bool told_everything(const StepTasks& tasks, const StepClient& client);
bool all_acknowledged(const StepTasks& tasks);

}  // namespace lockstep
