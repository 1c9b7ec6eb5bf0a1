// What a shim and the lockstep-pmi that it started say to each other, over a socket pair: four bytes of length, one of
// kind, and the payload. The shim takes what it hears for a user's words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pmi/backend.h"

namespace lockstep {

// Descriptors that lockstep-pmi is started with: the socket, and from the next on the ranks' ends by their places
// (kWire).
inline constexpr int kPmiControlFd = 3;
inline constexpr int kPmiRanksFd = 4;

enum class PmiControl : std::uint8_t {
  kWorld = 1,    // shim -> pmi, first: pmi/world.h
  kOwn = 2,      // shim -> pmi: bytes of the client's stream for this node
  kAll = 3,      // shim -> pmi: bytes of the client's stream for all nodes
  kEnded = 4,    // shim -> pmi: u32 place among the ranks here, u8 code, u8 signal
  kFinish = 5,   // shim -> pmi: all ranks here have ended
  kReady = 64,   // pmi -> shim: the tasks' variables
  kUp = 65,      // pmi -> shim: bytes for the client
  kFailed = 66,  // pmi -> shim: words for the user; it cannot serve the step
};

inline constexpr std::size_t kPmiControlMax = 64 << 20;  // from the shim
std::size_t pmi_control_bound(PmiControl kind);          // from lockstep-pmi

std::string encode_pmi_control(PmiControl kind, std::string_view payload);

// Cuts what has come. `bound` says how long a payload may be; a longer one, or an error of on_message, ends it.
class PmiControlReader {
 public:
  using Bound = std::size_t (*)(PmiControl kind);
  explicit PmiControlReader(Bound bound) : bound_(bound) {}
  Result<void> feed(std::string_view bytes, const std::function<void(PmiControl, std::string_view)>& on_message);

 private:
  Bound bound_;
  std::string pending_;
};

std::string encode_pmi_variables(const PmiVariables& variables);
// For so many ranks. Each is a NAME=value without NUL.
Result<PmiVariables> decode_pmi_variables(std::string_view bytes, std::size_t ranks);

}  // namespace lockstep
