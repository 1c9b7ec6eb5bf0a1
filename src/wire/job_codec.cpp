// The codecs of what a job is made of, compiled once.
#include "model/job_fields.h"
#include "wire/container_text.h"
#include "wire/fields.h"

namespace lockstep::wire {

template struct StructCodec<DeviceAsk>;
template struct StructCodec<Counted>;
template struct StructCodec<DevicePart>;
template struct StructCodec<Container>;
template struct StructCodec<Dependency>;
template struct StructCodec<ExitStatus>;
template struct StructCodec<WorkUse>;
template struct StructCodec<JobSpec>;
template struct StructCodec<Sandbox>;
template struct StructCodec<Allocation>;

}  // namespace lockstep::wire

namespace lockstep {

std::string encode_container(const Container& container) { return wire::encode_value(container); }

Result<Container> decode_container(std::string_view text) {
  return wire::decode_value<Container>(text, wire::Origin::kStranger);
}

}  // namespace lockstep
