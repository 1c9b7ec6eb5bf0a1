// Gres= of a NodeName line: "gpu:a100:8(S:0-1),shard:16".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::slurm {

struct GresWords {
  std::uint32_t gpus = 0;
  std::vector<std::string> types;   // of the GPUs, each once, in lower case
  std::vector<std::string> others;  // what is no GPU, as written
};
Result<GresWords> gres_words(const std::string& text);

}  // namespace lockstep::slurm
