// scontrol's reservations: "ReservationName=x StartTime=now Duration=60 Users=ann Nodes=n[1-4] Flags=MAINT".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/reservation.h"

namespace lockstep::slurm {

// Writes the pairs (keys in lower case) into the reservation; `now` is the calendar's, zone_s its time zone.
Result<void> set_reservation(Reservation& reservation, const std::vector<std::pair<std::string, std::string>>& pairs,
                             WallTime now, std::int32_t zone_s);
// What Slurm wants to be told of one that is made, in its words.
Result<void> check_new_reservation(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace lockstep::slurm
