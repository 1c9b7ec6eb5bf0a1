// What packing learns: the next record (model/records.h: Packing) from the last one, the requests that came since and
// the rooms there are now; and prices made from a record. Pure functions: a planner goes by nothing but the record, so
// that one which has just been started places as one that saw everything.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/records.h"
#include "sched/pack_prices.h"

namespace lockstep {

struct PackSettings {
  PackPriceSettings prices;
  int settle_steps = 1000;            // of the prices while the mix is still vague, in all
  int settle_arrivals = 200;          // after which two thirds of them are made
  int arrivals_per_step = 16;         // and then
  int fade = 1 << 15;                 // arrivals after which an arrival counts a third
  int steps_max = 64;                 // for one record
  std::int64_t work_max = 4'000'000;  // for one record, in values looked up: about so many nanoseconds
};

// The nodes, as far as all prices depend on them.
struct PackGround {
  std::vector<std::string> models;  // of devices, sorted; a room's kind is a position here
  std::int64_t gpu_milli = 0, cpu_milli = 0;
  friend bool operator==(const PackGround&, const PackGround&) = default;
};

struct PackRequest {
  std::int64_t cpu_milli = 0;
  std::uint8_t devices = 0;
  std::uint16_t milli = 0;
  std::vector<std::string> models;  // as in PackingClass
  friend auto operator<=>(const PackRequest&, const PackRequest&) = default;
};
using PackArrivals = std::map<PackRequest, std::int64_t>;  // how often each came

// Nothing is left for steps when `rooms` is empty: then only arrivals are counted.
Packing next_packing(const PackSettings& settings, const Packing* last, JobId through, const PackArrivals& arrivals,
                     const PackGround& ground, std::span<const PackStock> rooms);

// A record is due again after so many jobs.
std::size_t jobs_for_record(const Packing* last);

PackPrices make_prices(const PackSettings& settings, const Packing& record, const PackGround& ground);

}  // namespace lockstep
