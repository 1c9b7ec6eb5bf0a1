#include "wire/container_notes.h"

#include "wire/fields.h"

namespace lockstep::wire {

template <class V>
constexpr void describe(V& v, const FailedProbe*) {
  v.always("what", &FailedProbe::what);
  v("times", &FailedProbe::times);
  v("ends", &FailedProbe::ends);
  v("output", &FailedProbe::output, bounded::Text{kProbeOutputMax});
}

template <class V>
constexpr void describe(V& v, const ContainerNotes*) {
  v("fetch_time_us", &ContainerNotes::fetch_time, bounded::kSpan);
  v("failed_probes", &ContainerNotes::failed_probes, bounded::Items{kProbeKinds});
  v("replaced", &ContainerNotes::replaced, bounded::kName);
}

}  // namespace lockstep::wire

namespace lockstep {

std::string encode_container_notes(const ContainerNotes& notes) {
  return notes == ContainerNotes{} ? std::string() : wire::encode_value(notes);
}

Result<ContainerNotes> decode_container_notes(std::string_view text) {
  if (text.empty())
    return ContainerNotes{};
  return wire::decode_value<ContainerNotes>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
