#include "wire/sandbox_text.h"

#include "wire/agent_fields.h"

namespace lockstep {

std::string encode_sandbox(const Sandbox& sandbox) { return wire::encode_value(sandbox); }

Result<Sandbox> decode_sandbox(std::string_view text) {
  return wire::decode_value<Sandbox>(text, wire::Origin::kStranger);
}

std::string encode_containers(const TaskContainers& told) { return wire::encode_value(told); }

Result<TaskContainers> decode_containers(std::string_view text) {
  return wire::decode_value<TaskContainers>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
