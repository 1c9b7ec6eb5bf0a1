// Slurm's words for limits, by family and kind of resource. Its spelling is irregular, so they are listed.
#pragma once

#include <string_view>

namespace lockstep {

enum class LimitFamily : unsigned char {
  kAssocGrp,
  kQosGrp,
  kAssocGrpMinutes,
  kQosGrpMinutes,
  kAssocGrpRunMinutes,
  kQosGrpRunMinutes,
  kAssocMaxPerJob,
  kQosMaxPerJob,
  kAssocMaxPerNode,
  kQosMaxPerNode,
  kAssocMaxMinutesPerJob,
  kQosMaxMinutesPerJob,
  kQosMaxPerUser,
  kMaxPerAccount,
  kQosMin,
};
// resource: "cpu", "gres/gpu:h100" …
std::string_view limit_word(LimitFamily family, std::string_view resource);

}  // namespace lockstep
