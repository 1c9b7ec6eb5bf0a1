// What controller and agents say to each other. A Report's line in the agent's journal has the same form.
#include "wire/agent_fields.h"
#include "wire/codec.h"

namespace lockstep {

std::string encode(const FromAgent& message) { return wire::encode_value(message); }
std::string encode(const ToAgent& message) { return wire::encode_value(message); }

Result<FromAgent> decode_from_agent(std::string_view text) {
  return wire::decode_value<FromAgent>(text, wire::Origin::kStranger);
}
Result<ToAgent> decode_to_agent(std::string_view text) {
  return wire::decode_value<ToAgent>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
