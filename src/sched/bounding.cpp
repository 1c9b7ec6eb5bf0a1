#include "sched/bounding.h"

#include "model/tres_names.h"

namespace lockstep {

namespace {

bool limits_something(const Limits& limits) {
  static const Limits kNoLimits;
  return limits != kNoLimits;
}

bool counts_jobs(const Account& account) {
  static const Quota kNoQuota;
  return limits_something(account.limits) || account.quota != kNoQuota;
}
bool counts_jobs(const Association& association) { return limits_something(association.limits); }
bool counts_jobs(const Qos& qos) { return limits_something(qos.limits) || qos.requires_reservation; }

bool is_preferred(const Account&) { return false; }
bool is_preferred(const Association&) { return false; }
bool is_preferred(const Qos& qos) { return qos.priority > 0; }

}  // namespace

template <class T>
void Bounding::add(const T& record, std::ptrdiff_t times) {
  ++looks_;
  const Limits& limits = record.limits;
  if (counts_jobs(record))
    counting_ += times;
  if (!bounds_nothing(limits.grp_tres_mins) || limits.grp_wall_mins != kNoLimit)
    minutes_ += times;
  if (is_preferred(record))
    preferring_ += times;
}

template void Bounding::add(const Account&, std::ptrdiff_t);
template void Bounding::add(const Association&, std::ptrdiff_t);
template void Bounding::add(const Qos&, std::ptrdiff_t);

}  // namespace lockstep
