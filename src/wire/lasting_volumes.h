// What becomes of folders that outlive their sandboxes (path_of_lasting() of wire/sandbox_paths.h), as a node asks the
// front end that made them: GET /v1/lasting-volumes?names=A,B.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr std::string_view kLastingPath = "/v1/lasting-volumes";
inline constexpr std::size_t kLastingAtOnce = 50;  // names in one question

enum class LastingFate : unsigned char {
  kUnknown,  // a word of a later version: as kept
  kKept,     // it stays, whatever becomes of its volume
  kPassing,  // it goes with its volume
  kComing,   // its volume is not there yet
  kGone,     // nobody knows it any more
};

// Of {"volumes":["kept","gone"]}, as many as were asked for.
Result<std::vector<LastingFate>> decode_lasting(std::string_view text, std::size_t asked);

}  // namespace lockstep
