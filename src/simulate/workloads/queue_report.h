// What lockstep-sim queue and gpu share: options, how figures are printed, starts written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "rules/order.h"
#include "sim/queue_figures.h"
#include "simulate/command.h"
#include "wire/json_text.h"

namespace lockstep::sim {

// "name=value,…" over the default, names and units as in rules/order.h (durations in seconds): for parameter studies.
Result<OrderPolicy> order_policy_of(const Options& options);
// "--scale-submit PERCENT" more (or, negative, less) time between submissions; 1 without it.
Result<double> submit_factor_of(const Options& options);

void add_figures(JsonText& json, const QueueFigures& figures);  // as fields of the open object
void print_figures(const QueueFigures& figures);                // as lines of a table
// "id,start" for every job. Errors: kIo.
Result<void> write_starts(const std::string& path, std::span<const TraceJob> jobs,
                          std::span<const std::int64_t> start_s);

}  // namespace lockstep::sim
