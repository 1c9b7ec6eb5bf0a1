// Payloads of IoFrame::kPmi: two reliable byte streams between a step's client and the lockstep-pmi of each of its
// nodes (pmi/message.h says what they carry). Frames name the node by its first rank, or all of them; agents and
// controller pass them on like any other. Each frame says how far the other direction has come, and whoever lacks
// something is sent it again, so that a way that breaks costs a pause. Down there are two streams, one of which all
// nodes get alike, so that it travels once to each hop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

inline constexpr std::size_t kPmiChunk = 64 << 10;  // of one frame
inline constexpr std::size_t kPmiWindow = 4 << 20;  // under way and not confirmed, for each stream

// Shim -> client.
struct PmiUp {
  std::uint64_t offset = 0;                // of the bytes
  std::uint64_t got_own = 0, got_all = 0;  // of the two streams down
  bool fresh = false;                      // the first on this connection: what is not confirmed never came
  std::string_view bytes;
};
std::string encode(const PmiUp& up);
std::optional<PmiUp> decode_pmi_up(std::string_view payload);  // its bytes are the payload's

// Client -> shim.
struct PmiDown {
  bool to_all = false;       // of the stream that all get, else of the node's own
  std::uint64_t offset = 0;  // of the bytes
  std::uint64_t got = 0;     // of the stream up; 0 where all are meant
  std::string_view bytes;
};
std::string encode(const PmiDown& down);
std::optional<PmiDown> decode_pmi_down(std::string_view payload);

}  // namespace lockstep
