#include "io/gpu_numbers.h"

#include <algorithm>

#include "base/text.h"

namespace lockstep {

void renumber_gpus(std::vector<std::string>& env, const std::vector<ShimDevice>& gpus) {
  for (std::string& line : env)
    for (const std::string_view name : {"CUDA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="}) {
      if (!line.starts_with(name))
        continue;
      std::vector<std::string> words;
      for (const std::string& word : split(std::string_view(line).substr(name.size()), ',')) {
        const auto number = parse_uint(word);
        const bool known = number && *number < gpus.size() && gpus[*number].given;
        words.push_back(
            known ? std::to_string(std::count_if(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(*number),
                                                 [](const ShimDevice& gpu) { return gpu.given; }))
                  : word);
      }
      line = std::string(name) + join(words, ",");
    }
}

}  // namespace lockstep
