// What to say of a job that a reservation will never let start: it comes again sooner than the job would be over.
#pragma once

#include <string>

#include "model/spec.h"
#include "model/tables.h"

namespace lockstep {

// Which reservation, and what to do: "reservation maint comes again every week and …". "" where the job, as far as
// reservations go, can start one day.
std::string shut_out_for_good(const Tables& tables, const JobSpec& spec);

}  // namespace lockstep
