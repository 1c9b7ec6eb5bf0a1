// A sandbox and how far its containers have come, as text, for those who hand them on: the shim's launch record, the
// process that keeps the containers, and what it tells. JSON in one line without NUL, within the bounds of the model
// whoever wrote it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/command.h"

namespace lockstep {

std::string encode_sandbox(const Sandbox& sandbox);
Result<Sandbox> decode_sandbox(std::string_view text);
std::string encode_containers(const TaskContainers& told);
Result<TaskContainers> decode_containers(std::string_view text);

}  // namespace lockstep
