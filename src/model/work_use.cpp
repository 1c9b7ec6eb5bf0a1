#include "model/work_use.h"

#include <array>

#include "base/text.h"

namespace lockstep {

std::string text_of(const WorkUse& use) {
  return format("{} {} {} {} {} {} {} {} {} {} {} {}", use.user.us, use.system.us, use.read_bytes, use.written_bytes,
                use.tasks, use.memory_peak, use.memory_sum, use.memory_peak_rank, use.least_cpu.us, use.least_cpu_rank,
                use.gpu.us, use.gpu_memory_peak);
}

std::optional<WorkUse> parse_work_use(std::string_view text) {
  const auto words = split_words(text);
  std::array<std::int64_t, 12> numbers{};
  if (words.size() != 10 && words.size() != numbers.size())
    return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto number = parse_int(words[i]);
    const bool is_count = i == 4 || i == 7 || i == 9;
    if (!number || *number < 0 || (is_count && *number > UINT32_MAX))
      return std::nullopt;
    numbers[i] = *number;
  }
  WorkUse use;
  use.user.us = numbers[0];
  use.system.us = numbers[1];
  use.read_bytes = numbers[2];
  use.written_bytes = numbers[3];
  use.tasks = static_cast<std::uint32_t>(numbers[4]);
  use.memory_peak = numbers[5];
  use.memory_sum = numbers[6];
  use.memory_peak_rank = static_cast<std::uint32_t>(numbers[7]);
  use.least_cpu.us = numbers[8];
  use.least_cpu_rank = static_cast<std::uint32_t>(numbers[9]);
  use.gpu.us = numbers[10];
  use.gpu_memory_peak = numbers[11];
  return use;
}

}  // namespace lockstep
