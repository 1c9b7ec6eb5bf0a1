// How a task, a step or a job ended.
#pragma once

#include <cstdint>

namespace lockstep {

// What Slurm shows as the signal of a task whose input or output file could not be opened.
inline constexpr std::int32_t kNotOpenedSignal = 53;

struct ExitStatus {
  std::int32_t code = 0;    // 0–255
  std::int32_t signal = 0;  // the signal that ended it, or 0
  bool oom = false;
  bool not_opened = false;  // no program ran, and no signal came: `signal` is kNotOpenedSignal for those who read it
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
  bool ok() const { return code == 0 && signal == 0 && !oom; }
};

// The flags of a task's end in one byte, as shims tell it: 1 = oom, 2 = not_opened.
inline std::uint8_t exit_flags(const ExitStatus& exit) {
  return static_cast<std::uint8_t>((exit.oom ? 1 : 0) | (exit.not_opened ? 2 : 0));
}
inline ExitStatus exit_status(std::int32_t code, std::int32_t signal, std::uint64_t flags) {
  return {code, signal, (flags & 1) != 0, (flags & 2) != 0};
}

}  // namespace lockstep
