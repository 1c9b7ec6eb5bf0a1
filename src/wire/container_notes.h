// What a node tells of a container that runs, besides how it is: whence its image came and which of its probes fail.
// It stands in the status's message, which says nothing else while the container runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/service.h"

namespace lockstep {

struct FailedProbe {
  Probe::What what = Probe::What::kReadiness;
  std::uint32_t times = 0;  // how often so far, in all lives. Of one that goes on failing not every time is told
  std::uint32_t ends = 0;   // how often its container was ended for it
  std::string output;       // what it said last
  friend bool operator==(const FailedProbe&, const FailedProbe&) = default;
};
inline constexpr std::size_t kProbeKinds = 3, kProbeOutputMax = 512;

struct ContainerNotes {
  Duration fetch_time;                     // how long the image of this life took to come; 0 = it was there
  std::vector<FailedProbe> failed_probes;  // at most one of each kind
  std::string replaced;  // links of its image that folders have taken the place of: "/dev, /etc"; "" = none
  friend bool operator==(const ContainerNotes&, const ContainerNotes&) = default;
};

std::string encode_container_notes(const ContainerNotes& notes);  // one line; "" = nothing to say
// An Error: it is no such text.
Result<ContainerNotes> decode_container_notes(std::string_view text);

// Why a container waits whose image is being fetched.
inline constexpr std::string_view kFetchingImage = "FetchingImage";

}  // namespace lockstep
