// Frames: how links and step I/O cut a byte stream. 4 bytes length of the rest (big endian), 1 byte type, 8 bytes
// stream id, payload. A frame longer than its type may be ends the connection.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kFrameMax = 80 << 20;
inline constexpr std::size_t kPayloadMax = kFrameMax - 9;  // without type and stream

struct Frame {
  std::uint8_t type = 0;
  std::uint64_t stream = 0;
  std::string payload;
};
// The payload has at most kPayloadMax bytes: whoever sends what somebody else made long asks first.
std::string encode_frame(std::uint8_t type, std::uint64_t stream, std::string_view payload);

// The longest payload of each type, so that no peer can have much of a frame kept that never ends.
using FrameBound = std::size_t (*)(std::uint8_t type);
std::size_t any_frame_bound(std::uint8_t type);   // kPayloadMax: from one we trust
std::size_t link_frame_bound(std::uint8_t type);  // LinkFrame
std::size_t step_frame_bound(std::uint8_t type);  // IoFrame of a client: what it attaches with may name every rank

// Feeds bytes, hands out whole frames. An error means the peer is broken: close.
class FrameReader {
 public:
  FrameReader() = default;
  explicit FrameReader(FrameBound bound) : bound_(bound) {}
  Result<void> feed(std::string_view bytes, const std::function<void(Frame)>& on_frame);
  std::size_t pending_bytes() const { return pending_.size(); }  // of a frame that is not whole yet

 private:
  FrameBound bound_ = any_frame_bound;
  std::string pending_;
};

// Link between agent and controller (HTTP upgrade "lockstep-link/1"). Between two agents ("lockstep-peer/1") only the
// frames of streams are used, and the one who dialled opens them.
enum class LinkFrame : std::uint8_t {
  kMessage = 1,     // FromAgent or ToAgent, JSON
  kApiCall = 2,     // agent -> controller: a local client's request; stream = call id; payload wire/api_call.h
  kApiReply = 3,    // controller -> agent. A body longer than kApiInlineMax follows either as the data of a stream of
                    // the same id, with its credit, so that nobody waits behind it for long
  kOpenStream = 4,  // to an agent: attach to a shim (payload: wire/step_route.h, StepOpen); agent -> controller: a
                    // local client's upgraded request (payload as kApiCall)
  kStreamData = 5,  // both ways
  kStreamClose = 6,
  kStreamWindow = 7,  // 8 bytes: the receiver has consumed this many more bytes (credit; 1 MiB to begin with)
  kEnvironment = 8,   // controller -> agent: an environment follows as a stream of this id (wire/long_environment.h)
};

// Step I/O ("lockstep-stepio/1"): between srun and a shim, through agents and controller that only forward. stream =
// global rank, or kAllRanks. Output and input carry byte offsets, so that a broken connection resumes without loss.
inline constexpr std::uint64_t kAllRanks = ~std::uint64_t{0};
enum class IoFrame : std::uint8_t {
  kAttach = 1,       // client -> shim: u64 offsets per (rank, fd) it already has, as JSON {"have":{"0":[out,err]}}
  kStdin = 2,        // client -> shim: u64 offset, bytes
  kStdinEof = 3,     // u64 offset
  kOutput = 4,       // shim -> client: u8 fd (1, 2), u64 offset, bytes
  kOutputEof = 5,    // u8 fd, u64 offset
  kOutputAck = 6,    // client -> shim: u8 fd, u64 offset up to which it is safe
  kStarted = 7,      // shim -> client: u32 pid
  kExited = 8,       // shim -> client: u8 code, u8 signal, u8 exit_flags; after the rank's outputs ended
  kSignal = 9,       // client -> shim: u8 signal, to the rank or all
  kWindowSize = 10,  // u16 rows, u16 columns
  kNodeGone =
      11,  // forwarder -> client: this node's shim cannot be reached for good; payload node name; stream = first rank
  kFailed = 12,    // shim -> client: text: the launch failed on this node
  kStdinAck = 13,  // shim -> client: u64 offset the rank has been given; keep the rest to send it again
  kRoute = 14,     // controller -> agent that forwards for a client (in answer to kAttach, and when places are added):
                   // StepRoute JSON; what can be dialled is the agent's to attach to
  kRelay = 15,     // agent -> whoever it forwards for: node name; it cannot be reached by me
  kPmi = 16,  // both ways, stream = a node's first rank: what its lockstep-pmi and the client say (wire/pmi_frame.h)
};

}  // namespace lockstep
