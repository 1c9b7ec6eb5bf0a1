// Times as objects hold them ("2026-11-26T10:00:00Z", RFC 3339) and ages as kubectl prints them ("3m12s").
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep::kube {

// nullopt: no RFC 3339 time of the years 1 to 9999. Digits behind the microseconds are dropped.
std::optional<WallTime> parse_timestamp(std::string_view text);

std::string timestamp_text(WallTime time);        // whole seconds, UTC: metadata.creationTimestamp
std::string micro_timestamp_text(WallTime time);  // six digits behind the point: leases

// Two or three figures: 119s, 3m12s, 4h3m, 2d, 1y34d. Up to a second below zero counts as none, less as "<invalid>".
std::string age_text(Duration age);

}  // namespace lockstep::kube
