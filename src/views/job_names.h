// What users call jobs and steps: "12", "12_3", "12_[3-9,12]", "12.0", "12_3.batch".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/command.h"

namespace lockstep {

struct WorkName {
  JobTarget target;
  std::optional<StepNo> step;  // "batch" is kBatchStep
};

// A throttle as squeue prints it ("12_[3-9%2]") is accepted and means nothing here.
Result<WorkName> parse_work_name(std::string_view text);
Result<JobTarget> parse_job_target(std::string_view text);                       // refuses a step
Result<JobTarget> parse_job_target(std::string_view text, std::size_t& ranges);  // of several; see parse_indices()

struct StepName {
  JobTarget target;
  StepNo step = 0;
};
Result<StepName> parse_step_name(std::string_view text);  // refuses a name without a step

// How much one request may name. Lists are read into intervals, and "1-2000000000:2" would be a thousand million.
inline constexpr std::size_t kJobNamesMax = 10'000;
inline constexpr std::size_t kIndexRangesMax = 100'000;

// "0-7,9,20-40:4", as long as it fits into what is left of `ranges`, from which it takes.
Result<IntervalSet> parse_indices(std::string_view text, std::size_t& ranges);

// "12,13_[1,4],14" -> three names: commas inside brackets do not separate.
Result<std::vector<WorkName>> parse_work_names(std::string_view text);

// "a,b,a" -> {"a", "b"}, of any kind of name; field: what a refusal is about.
Result<std::vector<std::string>> parse_names(std::string_view text, std::string_view field);

std::string text_of(const JobTarget& target);
std::string text_of(const WorkName& name);
std::string job_text(const Job& job);  // "12", of an element "12_3"
std::string step_text(StepNo step);    // "0", "batch"

}  // namespace lockstep
