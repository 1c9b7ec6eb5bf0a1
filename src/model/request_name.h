// The name that a client gives to a submission, so that the same one sent again is known. It comes with the command as
// a label, and is kept as the name in the job's envelope, where it costs nothing to jobs that have none.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep {

inline constexpr std::string_view kRequestLabel = "lockstep.request";

// 128 bits take 22 to 32 letters; shorter ones are guessed, longer ones are no names.
inline bool is_request_name(std::string_view name) {
  return name.size() >= 16 && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
         });
}

}  // namespace lockstep
