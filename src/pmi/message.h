// What the lockstep-pmi of a step's nodes and the step's client say to each other, over the step's input and output
// channel (wire/pmi_frame.h): each message is four bytes of length, one byte of kind, and its fields. The client is the
// hub of the star: it gathers, passes on, and ends the step when one node asks for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::size_t kPmiMessageMax = 256 << 20;  // a gathering's result of a wide step
inline constexpr std::size_t kPmiWordsMax = 4 << 10;      // of a reason that people read

// This node's part of what the named nodes do together. key: the same at all of them, and of no other gathering that
// is under way. Answered by PmiGathered at each once all have come.
struct PmiGather {
  std::string key;
  std::vector<std::uint32_t> nodes;  // indexes; none = all
  std::string data;
  friend bool operator==(const PmiGather&, const PmiGather&) = default;
};
struct PmiGathered {
  std::string key;
  std::string data;  // all parts, in the order of the nodes
  friend bool operator==(const PmiGathered&, const PmiGathered&) = default;
};
// To the hub: for that node. From the hub: of that node.
struct PmiPassed {
  std::uint32_t node = 0;
  std::string data;
  friend bool operator==(const PmiPassed&, const PmiPassed&) = default;
};
// The step is to end, with this exit code of its client.
struct PmiAbort {
  std::int32_t code = 0;
  std::string why;
  friend bool operator==(const PmiAbort&, const PmiAbort&) = default;
};
// A rank has joined the world: from now on it counts on all others. Said once by a node.
struct PmiJoined {
  friend bool operator==(const PmiJoined&, const PmiJoined&) = default;
};
// A rank has ended and never joined.
struct PmiLeft {
  std::int32_t code = 0;  // as its end would have the client's exit code
  std::string why;
  friend bool operator==(const PmiLeft&, const PmiLeft&) = default;
};
// Names that ranks look each other up by (MPI_Publish_name). What the hub answers has the same number.
struct PmiName {
  enum class Do : unsigned char { kPublish, kWithdraw, kLookUp, kAnswer } what = Do::kLookUp;
  std::uint64_t number = 0;  // of the node's question
  std::string name, value;
  bool found = false;  // of the answer: it was done
  friend bool operator==(const PmiName&, const PmiName&) = default;
};

using PmiMessage = std::variant<PmiGather, PmiGathered, PmiPassed, PmiAbort, PmiJoined, PmiLeft, PmiName>;

std::string encode_pmi_message(const PmiMessage& message);

// Cuts messages from a byte stream. An error means that the other side is broken: nothing more is read.
class PmiMessageReader {
 public:
  Result<void> feed(std::string_view bytes, const std::function<void(PmiMessage)>& on_message);

 private:
  std::string pending_;
};

}  // namespace lockstep
