// Who may attach to a step, and by which way its input and output travel: tickets, which the controller signs for one
// node each and that node's agent verifies, and the places that lie behind a stream.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/ids.h"

namespace lockstep {

// What the holder of a ticket may do: the sum of these.
// kStepImages opens no shim: its holder is handed parts of images that the owner has on that node (docs/containers.md).
// kStepContainer opens no shim either: what it is for stands beside it (StepOpen::ask). The controller gives it to
// nobody and shows it to the node itself.
enum StepVerb : std::uint8_t { kStepOutput = 1, kStepInput = 2, kStepSignal = 4, kStepImages = 8, kStepContainer = 16 };
inline constexpr std::uint8_t kStepEverything = kStepOutput | kStepInput | kStepSignal;
// "output,signal"; an error names the word that is none.
Result<std::uint8_t> parse_step_verbs(std::string_view text);

struct StepTicket {
  JobId job;
  AttemptNo attempt = 0;
  StepNo step = 0;
  std::string node;             // whose agent is to honour it
  std::uint32_t uid = 0;        // the step's owner
  std::uint8_t verbs = 0;       // StepVerb
  std::int64_t expires_us = 0;  // cluster time
  std::string mac;              // of everything above, with the node's own key; hex
  friend bool operator==(const StepTicket&, const StepTicket&) = default;
};
// HMAC-SHA256 in hex (RFC 2104).
using Mac = std::function<std::string(std::string_view key, std::string_view text)>;
// What the mac covers: every field on a line of its own.
std::string signed_text(const StepTicket& ticket);

// One node of a step as seen from somebody who forwards for it.
struct StepMember {
  std::string node;
  std::string address;      // where its agent is dialled by other agents
  std::uint16_t port = 0;   // 0: it cannot be dialled; the controller passes its bytes on
  std::string certificate;  // serial of the one that it must show
  std::vector<std::uint32_t> ranks;
  StepTicket ticket;
  friend bool operator==(const StepMember&, const StepMember&) = default;
};

// Payload of LinkFrame::kOpenStream: attach to the shim here, and to those of the nodes below.
struct StepOpen {
  StepTicket ticket;
  std::vector<std::uint32_t> ranks;  // here; needed only when there is something below
  std::vector<StepMember> below;
  std::string ask = {};  // kStepContainer: what of which container (wire/container_ask_text.h)
};
std::string encode(const StepOpen& open);
Result<StepOpen> decode_step_open(std::string_view text);

// Payload of IoFrame::kRoute.
struct StepRoute {
  std::vector<StepMember> members;
};
std::string encode(const StepRoute& route);
Result<StepRoute> decode_step_route(std::string_view text);

}  // namespace lockstep
