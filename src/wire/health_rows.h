// GET /v1/health: what is known of nodes' health, one row for each node and check, and one for each node's own word.
//
//   {"rows":[{"node":"n1","check":"gpus","verdict":"bad","closes":true,"at_us":…,"job":12,"evidence":"exit code 3 (job
//   12)"}]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/node.h"

namespace lockstep {

struct HealthRow {
  std::string node;
  std::string check;  // "" = what the node says itself
  HealthVerdict verdict = HealthVerdict::kUnknown;
  bool closes = false;     // the node takes no work for it
  std::int64_t at_us = 0;  // by the calendar; 0 = nothing is known yet
  JobId job;               // 0 = no run has told anything
  std::string evidence;
};
std::string encode(const HealthRow& row);
Result<std::vector<HealthRow>> decode_health_rows(std::string_view text);  // of a whole answer

}  // namespace lockstep
