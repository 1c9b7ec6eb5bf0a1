// The codecs of jobs, compiled once.
#include "wire/job_fields.h"

namespace lockstep::wire {

template struct StructCodec<DeviceAsk>;
template struct StructCodec<Counted>;
template struct StructCodec<DevicePart>;
template struct StructCodec<Container>;
template struct StructCodec<Dependency>;
template struct StructCodec<ExitStatus>;
template struct StructCodec<JobSpec>;
template struct StructCodec<Allocation>;
template struct StructCodec<Job>;

}  // namespace lockstep::wire
