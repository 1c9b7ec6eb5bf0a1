#include "model/within.h"

#include "model/command_fields.h"
#include "model/faults.h"
#include "model/job_fields.h"
#include "model/record_fields.h"

namespace lockstep {

template <class T>
Result<void> within_bounds(const T& value) {
  auto fault = fault_in(value);
  if (!fault)
    return {};
  return invalid(format("{} {}", fault->where, fault->why), std::move(fault->where));
}

template Result<void> within_bounds(const JobSpec&);
template Result<void> within_bounds(const StepSpec&);
template Result<void> within_bounds(const ArrayAsk&);
template Result<void> within_bounds(const JobTarget&);
template Result<void> within_bounds(const UpdateJob&);
template Result<void> within_bounds(const UpdateNode&);
template Result<void> within_bounds(const Cluster&);
template Result<void> within_bounds(const User&);
template Result<void> within_bounds(const Account&);
template Result<void> within_bounds(const Partition&);
template Result<void> within_bounds(const Node&);
template Result<void> within_bounds(const JoinToken&);
template Result<void> within_bounds(const Object&);
template Result<void> within_bounds(const Association&);
template Result<void> within_bounds(const Qos&);
template Result<void> within_bounds(const Licence&);
template Result<void> within_bounds(const Reservation&);
template Result<void> within_bounds(const Policy&);
template Result<void> within_bounds(const Topology&);
template Result<void> within_bounds(const NodeClass&);
template Result<void> within_bounds(const HealthCheck&);

}  // namespace lockstep
