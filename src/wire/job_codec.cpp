// The codecs of what a job is made of, compiled once.
#include "model/job_fields.h"
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
template struct StructCodec<Allocation>;

}  // namespace lockstep::wire
